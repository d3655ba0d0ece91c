// Graphs of one grouped matmul: grouped_matmul [-> pointwise ...]. Rows lie sorted by expert, or are gathered by index.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/diagnostic.h"
#include "compiler/ir/fused_pattern.h"
#include "compiler/ir/graph.h"

namespace plait {

struct GroupedPattern {
    std::string x, w, offs;      // tensor names
    std::string rows, second;    // empty: x lies sorted; second alone empty: rows are gathered from x only
    std::string output, dtype, output_dtype;
    bool transpose_b = false;    // w is [experts, N, K]
    std::vector<PointwiseOp> pointwise;
    std::string source;
    bool gathers() const { return !rows.empty(); }
};

// Nothing where the graph does not fit; every reason is added to `findings` (rule check_graph).
std::optional<GroupedPattern> match_grouped_pattern(const Graph& graph, Diagnostics* findings);

}  // namespace plait
