// Tensor cores take bf16 and f16 here; both operands have one dtype; results leave in any of the three.
#include <fmt/format.h>

#include "compiler/verify/rules.h"

namespace plait {
namespace {

bool is_half(const std::string& dtype) { return dtype == "bf16" || dtype == "f16"; }
bool is_known(const std::string& dtype) { return is_half(dtype) || dtype == "f32"; }

}  // namespace

Diagnostics check_dtypes(const Request& request) {
    Diagnostics findings;
    auto report = [&](std::string message, std::string where, std::string hint) {
        findings.push_back({"check_dtypes", std::move(message), std::move(where), std::move(hint)});
    };
    const Graph& graph = request.graph;
    const bool reads_lists = pattern_as<GroupedPattern>(graph).has_value();
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
        const GraphTensor& t = graph.inputs[i];
        if (is_known(t.dtype) || (t.dtype == "i32" && reads_lists)) continue;  // which ones are lists is the pattern's matter
        report(fmt::format("tensor `{}` has dtype {}", t.name, t.dtype), fmt::format("/graph/inputs/{}/dtype", i),
               "use bf16, f16 or f32");
    }
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const GraphOp& op = graph.ops[i];
        if (op.op != "cast" || is_known(op.dtype)) continue;
        report(fmt::format("cast to {}", op.dtype.empty() ? "nothing" : op.dtype),
               fmt::format("/graph/ops/{}/dtype", i), "use bf16, f16 or f32");
    }
    const bool attention = is_attention(graph);
    if (!is_known(graph.output_dtype) || (attention && !is_half(graph.output_dtype)))
        report(fmt::format("output dtype {}", graph.output_dtype), "/graph/output_dtype",
               attention ? "use bf16 or f16" : "use bf16, f16 or f32");
    const auto pattern = pattern_as<FusedPattern>(graph);
    if (!pattern) return findings;
    const std::string a = graph.find_input(pattern->a)->dtype, b = graph.find_input(pattern->b)->dtype;
    if (a != b)
        report(fmt::format("matmul of {} `{}` and {} `{}`", a, pattern->a, b, pattern->b), "/graph/ops",
               "both operands need one dtype");
    if (is_known(a) && !is_half(a)) report(fmt::format("matmul of {} operands", a), "/graph/ops", "use bf16 or f16");
    return findings;
}

}  // namespace plait
