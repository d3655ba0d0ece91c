#include "compiler/ir/pattern.h"

#include <algorithm>

namespace plait {

namespace {

bool has(const Graph& graph, const char* name) {
    return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const GraphOp& op) { return op.op == name; });
}

}  // namespace

bool is_attention(const Graph& graph) { return has(graph, "attention"); }

std::optional<Pattern> match_pattern(const Graph& graph, Diagnostics* findings) {
    if (is_attention(graph)) return match_attention_pattern(graph, findings);
    if (has(graph, "grouped_matmul")) return match_grouped_pattern(graph, findings);
    return match_fused_pattern(graph, findings);
}

}  // namespace plait
