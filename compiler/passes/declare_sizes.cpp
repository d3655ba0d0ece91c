#include "compiler/passes/declare_sizes.h"

namespace plait {

void declare_sizes(const Graph& graph, const Target& target, const Choices& c, Plan* plan) {
    declare_kernel(graph, target, c, plan);
    plan->consts = c.constants();
    if (c.clustered()) plan->consts.push_back({"cluster", c.cluster});
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
    if (!c.clustered()) {
        let("row_tiles", "ceil_div(a_rows, tile_m)");
        let("tiles", "row_tiles * col_tiles");
        return;
    }
    // A cluster computes `cluster` neighbouring tiles at a time: those are what the CTAs walk over. The last one of a
    // row or column may reach beyond the output.
    let("row_tiles", c.shares_b ? "ceil_div(a_rows, cluster * tile_m)" : "ceil_div(a_rows, tile_m)");
    if (c.shares_a) let("cluster_cols", "ceil_div(col_tiles, cluster)");
    let("tiles", c.shares_a ? "row_tiles * cluster_cols" : "row_tiles * col_tiles");
}

}  // namespace plait
