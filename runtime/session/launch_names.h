// The values of a manifest's names for one rank, M and the launch arguments beside it.
#pragma once
#include <map>
#include <set>
#include <string>

#include "runtime/session/bind.h"

namespace plait {

// A let is evaluated when something asks for it: lets that only the kernel can evaluate (they name a CTA) may stand in
// the list.
class LaunchNames {
public:
    LaunchNames(const Manifest& manifest, const RankPlace& place, std::int64_t m, const Params& params);
    void define(const std::string& name, std::int64_t value) { values_[name] = value; }
    std::int64_t evaluate(const Expr& expr);  // ArgumentError: a name without a value

private:
    std::int64_t look_up(const std::string& name, bool has_index);

    const Manifest& manifest_;
    std::map<std::string, std::int64_t> values_;
    std::set<std::string> open_;
};

}  // namespace plait
