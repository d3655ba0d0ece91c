// Launch arguments beside M: the problem has a limit for each, and for nothing else.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/verify/rules.h"

namespace plait {
namespace {

struct LaunchArguments {
    std::string op;
    std::vector<std::string> names;
};

LaunchArguments arguments_of(const FusedPattern&) { return {}; }
LaunchArguments arguments_of(const AttentionPattern&) { return {"attention", {"keys", "batch"}}; }
LaunchArguments arguments_of(const GroupedPattern& p) {
    LaunchArguments arguments{"grouped_matmul", {"experts"}};
    if (!p.second.empty()) arguments.names.push_back("second_tokens");
    if (p.gathers()) arguments.names.push_back("tokens");
    return arguments;
}

}  // namespace

Diagnostics check_limits(const Request& request) {
    Diagnostics findings;
    const auto report = [&](std::string message, const std::string& name, std::string hint) {
        findings.push_back({"check_limits", std::move(message), "/problem/limits/" + name, std::move(hint)});
    };
    Diagnostics others;
    const std::optional<Pattern> pattern = match_pattern(request.graph, &others);
    if (!pattern) return {};
    const auto [op, names] = std::visit([](const auto& p) { return arguments_of(p); }, *pattern);
    if (names.empty()) return {};
    const auto& limits = request.problem.limits;
    for (const std::string& name : names) {
        if (limits.count(name) == 0)
            report(fmt::format("the problem has no limit for `{}`, a launch argument of {}", name, op), name,
                   "give the largest value of any launch");
    }
    for (const auto& [name, value] : limits) {
        if (std::find(names.begin(), names.end(), name) == names.end())
            report(fmt::format("this {} has no launch argument `{}`", op, name), name,
                   fmt::format("remove it; it has M and {}", fmt::join(names, ", ")));
        else if (value < 1 || value > kMaxTmaCoordinate)
            report(fmt::format("{} = {} is outside of 1..2^31 - 1", name, value), name, "TMA coordinates are 32-bit");
    }
    return findings;
}

}  // namespace plait
