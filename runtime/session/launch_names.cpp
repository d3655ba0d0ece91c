#include "runtime/session/launch_names.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {

LaunchNames::LaunchNames(const Manifest& manifest, const RankPlace& place, std::int64_t m, const Params& params)
    : manifest_(manifest) {
    values_ = {{"M", m},
               {"rank", place.rank},
               {"world", place.world},
               {"node", place.node},
               {"nodes", place.nodes},
               {"local", place.local},
               {"locals", place.locals}};
    values_.insert(params.begin(), params.end());
}

std::int64_t LaunchNames::evaluate(const Expr& expr) {
    return expr.evaluate(
        [this](const std::string& name, bool has_index, std::int64_t) { return look_up(name, has_index); });
}

std::int64_t LaunchNames::look_up(const std::string& name, bool has_index) {
    if (auto found = values_.find(name); found != values_.end() && !has_index) return found->second;
    for (const ManifestLet& let : manifest_.lets) {
        if (let.name != name || has_index) continue;
        if (!open_.insert(name).second) {
            throw ArgumentError(fmt::format("manifest of {}: let `{}` depends on itself", manifest_.name, name));
        }
        const std::int64_t value = evaluate(let.value);
        open_.erase(name);
        values_[name] = value;
        return value;
    }
    throw ArgumentError(fmt::format("manifest of {}: name `{}` has no value at launch", manifest_.name, name),
                        "known are M rank world node nodes local locals and the manifest's params and lets");
}

}  // namespace plait
