#include "compiler/passes/declare_sizes.h"

namespace plait {

void declare_sizes(const Graph& graph, const Target& target, const Choices& c, Plan* plan) {
    declare_kernel(graph, target, c, plan);
    plan->consts = c.constants();
    // Rows of a transposed a are columns of memory: their pitch must be a multiple of 16 bytes for TMA.
    if (c.pattern.transpose_a) plan->consts.push_back({"m_multiple", 8});
    auto let = [&](const char* name, const char* value) { plan->lets.push_back({name, Expr(value)}); };
    if (c.communicates) {
        plan->consts.insert(plan->consts.end(), {{"row_bytes", 2 * c.k},
                                                 {"shard_max", c.shard_max},
                                                 {"chunk_rows", c.chunk_rows},
                                                 {"chunks_max", c.chunks_max},
                                                 {"piece_bytes", c.piece_bytes},
                                                 {"pieces", c.pieces},
                                                 {"lag", c.lag}});
        let("shard", "max(ceil_div(M, world), 1)");
        let("tail", "M / shard");  // full shards; the rank whose shard is short
        let("tail_rows", "M % shard");
        let("a_rows", "max(0, min(shard, M - rank * shard))");
        let("row_tiles", "ceil_div(shard, tile_m)");
        let("shard_tiles", "row_tiles * col_tiles");
        let("tiles", "world * shard_tiles");
        let("chunks", "ceil_div(a_rows, chunk_rows)");
        return;
    }
    if (c.pattern.row_shard) {
        let("shard", "max(ceil_div(M, world), 1)");
        let("a_rows", "max(0, min(shard, M - rank * shard))");
    } else {
        let("a_rows", "M");
    }
    let("row_tiles", "ceil_div(a_rows, tile_m)");
    let("tiles", "row_tiles * col_tiles");
}

}  // namespace plait
