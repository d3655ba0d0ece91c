// Grouped matmul: operands of one 16-bit dtype, tiles that a gather can copy.
#include <fmt/format.h>

#include "compiler/verify/rules.h"

namespace plait {
namespace {

class Grouped {
public:
    Grouped(const Request& request, const GroupedPattern& pattern) : r_(request), p_(pattern) {}

    Diagnostics run() {
        dtypes();
        const std::int64_t stages = r_.schedule.integer("stages");
        if (p_.gathers() && r_.schedule.is_set("stages") && stages < 3)
            report(fmt::format("stages = {}: gathered rows are announced 2 blocks late, which leaves none in flight",
                               stages),
                   "/schedule/stages", "use 3 or more");
        return std::move(findings_);
    }

private:
    void report(std::string message, std::string where, std::string hint) {
        findings_.push_back({"check_grouped", std::move(message), std::move(where), std::move(hint)});
    }
    const std::string& dtype(const std::string& tensor) const { return r_.graph.find_input(tensor)->dtype; }

    void dtypes() {
        for (const std::string& other : {p_.w, p_.second}) {
            if (other.empty() || dtype(other) == dtype(p_.x)) continue;
            report(fmt::format("grouped_matmul of {} `{}` and {} `{}`", dtype(p_.x), p_.x, dtype(other), other),
                   "/graph/ops", "its operands need one dtype");
        }
        if (dtype(p_.x) != "bf16" && dtype(p_.x) != "f16")
            report(fmt::format("grouped_matmul of {} operands", dtype(p_.x)), "/graph/ops", "use bf16 or f16");
        for (const PointwiseOp& op : p_.pointwise) {
            if (!op.tensor.empty() && dtype(op.tensor) == "i32")
                report(fmt::format("{} `{}` has dtype i32", op.function, op.tensor), "/graph/ops",
                       "use bf16, f16 or f32");
        }
    }

    const Request& r_;
    const GroupedPattern& p_;
    Diagnostics findings_;
};

}  // namespace

Diagnostics check_grouped(const Request& request) {
    const auto pattern = pattern_as<GroupedPattern>(request.graph);
    if (!pattern) return {};
    return Grouped(request, *pattern).run();
}

}  // namespace plait
