// Graphs of one attention op. Its numerics are resolved here: they depend on the op and its head dim alone.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ir/diagnostic.h"
#include "compiler/ir/graph.h"

namespace plait {

struct AttentionPattern {
    std::string q, k, v, output, lse;  // tensor names; lse is empty where the graph does not keep it
    std::string dtype, output_dtype;   // of q, k and v; of the result
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
    bool causal = false;
    std::int64_t causal_offset = 0;
    double scale = 0;
    bool heads_first = false;  // bhsd: one matrix [sequence, head dim] a head
    std::int64_t key_block = 0;
    double rescale_threshold = 0;
    std::string source;
};

// Keys of one step of the online softmax where the graph does not say: what fits beside the result in registers.
std::int64_t default_key_block(std::int64_t head_dim);

// Nothing where the graph does not fit; every reason is added to `findings` (rule check_graph).
std::optional<AttentionPattern> match_attention_pattern(const Graph& graph, Diagnostics* findings);

}  // namespace plait
