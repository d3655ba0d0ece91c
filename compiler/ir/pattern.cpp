#include "compiler/ir/pattern.h"

#include <algorithm>

namespace plait {

bool is_attention(const Graph& graph) {
    return std::any_of(graph.ops.begin(), graph.ops.end(), [](const GraphOp& op) { return op.op == "attention"; });
}

std::optional<Pattern> match_pattern(const Graph& graph, Diagnostics* findings) {
    if (is_attention(graph)) return match_attention_pattern(graph, findings);
    return match_fused_pattern(graph, findings);
}

}  // namespace plait
