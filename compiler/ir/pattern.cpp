#include "compiler/ir/pattern.h"

#include <algorithm>

namespace plait {

std::optional<Pattern> match_pattern(const Graph& graph, Diagnostics* findings) {
    const auto has = [&](const char* name) {
        return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const GraphOp& op) { return op.op == name; });
    };
    if (has("grouped_matmul")) return match_grouped_pattern(graph, findings);
    return match_fused_pattern(graph, findings);
}

}  // namespace plait
