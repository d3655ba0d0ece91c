// The graphs that can be fused into one kernel today: [all_gather ->] matmul [-> silu_mul] [-> pointwise ...], by
// composition and not by name. Lowering and the verifier read a graph through this one function.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/diagnostic.h"
#include "compiler/ir/graph.h"

namespace plait {

struct PointwiseOp {
    std::string function;  // bias residual scale relu gelu gelu_tanh silu cast
    std::string tensor;    // bias, residual
    double value = 1.0;    // scale
    std::string dtype;     // cast
    std::string source;
};

struct FusedPattern {
    bool all_gather = false;   // rows of every rank are gathered
    bool row_shard = false;    // no gather, and `a` holds this rank's rows only
    bool transpose_a = false;  // a is [K, M]
    bool transpose_b = false;  // b is [N, K]
    bool gated = false;        // b has 2 N columns: silu of the left half times the right half
    std::string a, b, output;  // tensor names
    std::string dtype;         // of a and b
    std::string output_dtype;
    std::vector<PointwiseOp> pointwise;
    std::string gather_source, matmul_source, gate_source;
};

// Nothing where the graph does not fit; every reason is added to `findings` (rule check_graph).
std::optional<FusedPattern> match_fused_pattern(const Graph& graph, Diagnostics* findings);

}  // namespace plait
