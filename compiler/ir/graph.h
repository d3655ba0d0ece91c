// Graph: what is computed, numerics included. Built by Python tracing or read from JSON; never says how.
//
// Values are named; each op names its inputs and makes one value. Shapes are in terms of M (rows, a launch argument),
// N (columns of this rank's output), K, and the further launch arguments that Problem::limits names. `shard` is the
// dimension along which a tensor is split over all ranks (ceil(M / world) rows each, trailing shards short or empty),
// or -1.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/expr.h"

namespace plait {

struct Arity {
    int least, most;
    Arity(int n) : least(n), most(n) {}   // NOLINT: a number of inputs is an arity
    Arity(int from, int to) : least(from), most(to) {}
    std::string print() const;            // 3, or 3 to 5
};
struct GraphOpSpec {
    std::string name;
    Arity inputs = 1;
    std::string attribute;         // dim transpose value dtype attention none
    std::string doc;
};
const std::vector<GraphOpSpec>& graph_ops();
const GraphOpSpec* find_graph_op(const std::string& name);   // nullptr where there is none

struct GraphTensor {
    std::string name;
    std::string dtype;             // bf16 f16 f32; i32 for lists
    std::vector<Expr> shape;       // global
    int shard = -1;
};

// Of an attention op. All of it is numerics but `layout` and `lse`: a schedule never changes a bit of the result.
struct AttentionAttributes {
    bool causal = false;                  // query i sees key j where j <= i + causal_offset
    std::int64_t causal_offset = 0;
    double scale = 0;                     // of the scores; 0: 1 / sqrt(head dim)
    std::string layout = "bshd";          // or bhsd: order of batch, sequence, head and head dim, in q, k, v and the result
    std::int64_t key_block = 0;           // keys of one step of the online softmax; 0: by head dim
    double rescale_threshold = 8;         // a row keeps its maximum until it grows by more, in powers of two
    std::string lse;                      // name of the log-sum-exp, [batch, heads, M] in f32, natural; empty: none
    bool operator==(const AttentionAttributes&) const = default;
};

// op: all_gather (attrs dim), matmul (attrs transpose_a, transpose_b), bias, residual, scale (attrs value), relu, gelu,
// gelu_tanh, silu, silu_mul, cast (attrs dtype), attention (its attributes), grouped_matmul (attrs transpose_b). The list
// with arities and docs is compiler/ir/ops.def.
struct GraphOp {
    std::string op;
    std::string result;
    std::vector<std::string> inputs;      // tensors or earlier results
    long dim = 0;                         // all_gather
    bool transpose_a = false;             // matmul: a is [K, M]
    bool transpose_b = false;             // matmul: b is [N, K]; grouped_matmul: w is [experts, N, K]
    double value = 1.0;                   // scale
    std::string dtype;                    // cast
    AttentionAttributes attention;        // attention
    std::string source;                   // "file.py:12", a comment; not part of identity
};

struct Numerics {
    std::string accumulate = "f32";       // only f32 today
    std::string k_order = "ascending";    // one pass over k, no split
};

struct GraphOutput {
    std::string name;
    std::string dtype;
};

struct Graph {
    std::string name;
    std::vector<GraphTensor> inputs;
    std::vector<GraphOp> ops;
    std::string output;                   // the last result
    std::string output_dtype = "bf16";
    std::vector<GraphOutput> more_outputs;    // side results that are kept, such as a log-sum-exp
    Numerics numerics;

    const GraphTensor* find_input(const std::string& name) const;
};

struct Problem {
    std::int64_t m_max = 0;               // rows, global: the largest M a launch may have
    std::int64_t n = 0;                   // columns per rank
    std::int64_t k = 0;
    std::map<std::string, std::int64_t> limits = {};   // launch arguments beside M (keys, batch, experts): largest value of each
};

}  // namespace plait
