// Values of a plan's sizes for one rank of one launch.
#pragma once
#include <map>
#include <optional>

#include "compiler/ir/plan.h"

namespace plait {

class Environment {
public:
    Environment(const Plan& plan, std::int64_t m, std::int64_t rank, std::int64_t cta = 0, std::int64_t ctas = 1,
                const std::map<std::string, std::int64_t>& params = {},    // missing params: their largest value
                std::int64_t row_gap = 0);   // bytes between the rows of strided tensors
    // Throws ScheduleError on unknown names and division by zero.
    std::int64_t value(const Expr& expr) const;
    const std::map<std::string, std::int64_t>& values() const { return values_; }

private:
    std::map<std::string, std::int64_t> values_;
};

}  // namespace plait
