// Graph: what is computed, numerics included. Built by Python tracing or read from JSON; never says how.
//
// Values are named; each op names its inputs and makes one value. Shapes are in terms of M (rows, a launch argument),
// N (columns of this rank's output), K. `shard` is the dimension along which a tensor is split over all ranks
// (ceil(M / world) rows each, trailing shards short or empty), or -1.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/expr.h"

namespace plait {

struct GraphOpSpec {
    std::string name;
    int inputs = 1;
    std::string attribute;         // dim transpose value dtype none
    std::string doc;
};
const std::vector<GraphOpSpec>& graph_ops();
const GraphOpSpec* find_graph_op(const std::string& name);   // nullptr where there is none

struct GraphTensor {
    std::string name;
    std::string dtype;             // bf16 f16 f32
    std::vector<Expr> shape;       // global
    int shard = -1;
};

// op: all_gather (attrs dim), matmul (attrs transpose_a, transpose_b), bias, residual, scale (attrs value), relu, gelu, gelu_tanh,
// silu, silu_mul, cast (attrs dtype). The list with arities and docs is compiler/ir/ops.def.
struct GraphOp {
    std::string op;
    std::string result;
    std::vector<std::string> inputs;      // tensors or earlier results
    long dim = 0;                         // all_gather
    bool transpose_a = false;             // matmul: a is [K, M]
    bool transpose_b = false;             // matmul: b is [N, K]
    double value = 1.0;                   // scale
    std::string dtype;                    // cast
    std::string source;                   // "file.py:12", a comment; not part of identity
};

struct Numerics {
    std::string accumulate = "f32";       // only f32 today
    std::string k_order = "ascending";    // one pass over k, no split
};

struct Graph {
    std::string name;
    std::vector<GraphTensor> inputs;
    std::vector<GraphOp> ops;
    std::string output;                   // the last result
    std::string output_dtype = "bf16";
    Numerics numerics;

    const GraphTensor* find_input(const std::string& name) const;
};

struct Problem {
    std::int64_t m_max = 0;               // rows, global: the largest M a launch may have
    std::int64_t n = 0;                   // columns per rank
    std::int64_t k = 0;
};

}  // namespace plait
