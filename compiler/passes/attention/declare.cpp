#include "compiler/passes/attention/declare.h"

#include <fmt/format.h>

#include "compiler/passes/block.h"

namespace plait::attention {
namespace {

constexpr std::int64_t kElement = 2;  // bf16, f16
// Keys and values that stay in the L2 cache while the row tiles of their heads alternate.
constexpr std::int64_t kGroupBytes = 32 << 20;

using Exprs = std::vector<Expr>;

// One map over q, k, v or the result. bshd: x walks all heads of a row; bhsd: z walks the heads.
MapDef sequence_map(const Choices& c, const char* name, const std::string& memory, const std::string& dtype,
                    const std::string& heads, const std::string& rows, std::int64_t box_rows) {
    const bool first = c.pattern.heads_first;
    const std::string columns = first ? "head_dim" : heads + " * head_dim";
    const Expr pitch(columns + " * 2"), plane(fmt::format("{} * {} * 2", rows, columns));
    const Expr planes(first ? "batch * " + heads : "batch");
    return {name, 0, memory, dtype, 0, {Expr(columns), Expr(rows), planes}, {pitch, plane}, {64, box_rows, 1}};
}

Exprs shape(const Choices& c, const std::string& heads, const std::string& rows) {
    if (c.pattern.heads_first) return {Expr("batch"), Expr(heads), Expr(rows), Expr("head_dim")};
    return {Expr("batch"), Expr(rows), Expr(heads), Expr("head_dim")};
}

}  // namespace

void declare_sizes(const Graph& graph, const Target& target, const Choices& c, Plan* plan) {
    declare_kernel(graph, target, c, plan);
    plan->consts = {{"heads", c.pattern.heads},
                    {"kv_heads", c.pattern.kv_heads},
                    {"heads_per_kv", c.pattern.heads / c.pattern.kv_heads},
                    {"head_dim", c.pattern.head_dim},
                    {"tile_m", c.tile_m},
                    {"key_block", c.pattern.key_block},
                    {"stages", c.stages}};
    plan->params = {{"batch", c.batch_max}, {"keys", c.keys_max}};
    auto let = [&](const char* name, const std::string& value) { plan->lets.push_back({name, Expr(value)}); };
    let("row_tiles", "ceil_div(M, tile_m)");
    // Query heads whose row tiles alternate; where causal the longest rows of all of them first.
    const std::int64_t pair = 2 * c.pattern.head_dim * kElement;
    if (c.head_group > 0)
        let("group", fmt::format("min({}, max(1, batch * kv_heads)) * heads_per_kv", c.head_group));
    else if (c.pattern.causal)
        let("group", fmt::format("max(1, min(batch * kv_heads, {} / max(1, keys))) * heads_per_kv", kGroupBytes / pair));
    else
        let("group", "1");
    let("tiles", "batch * heads * row_tiles");
}

void declare_tensors(const Graph& graph, const Choices& c, Plan* plan) {
    const AttentionPattern& p = c.pattern;
    for (const GraphTensor& tensor : graph.inputs) {
        const bool query = tensor.name == p.q;
        plan->tensors.push_back(
            {tensor.name, tensor.dtype, shape(c, query ? "heads" : "kv_heads", query ? "M" : "keys"), false});
    }
    plan->tensors.push_back({p.output, p.output_dtype, shape(c, "heads", "M"), true});
    if (!p.lse.empty()) plan->tensors.push_back({p.lse, "f32", {Expr("batch"), Expr("heads"), Expr("M")}, true});
    plan->maps = {sequence_map(c, "q_map", p.q, p.dtype, "heads", "M", c.tile_m),
                  sequence_map(c, "k_map", p.k, p.dtype, "kv_heads", "keys", p.key_block),
                  sequence_map(c, "v_map", p.v, p.dtype, "kv_heads", "keys", 64),
                  sequence_map(c, "o_map", p.output, p.output_dtype, "heads", "M", 64)};
}

void declare_memory(const Choices& c, Plan* plan) {
    const std::int64_t box = 64 * kElement;  // bytes of a row of a box
    plan->shared = {{"q_stage", c.tile_m * box, c.boxes(), 1024},
                    {"k_stage", c.pattern.key_block * box, c.stages * c.boxes(), 1024},
                    {"v_stage", 64 * box * c.boxes(), c.stages * c.halves(), 1024},
                    {"o_box", 64 * box, c.consumers * c.output_slots(), 1024},
                    {"tile_slot", 8, 2 * kTileWords, 16}};
    const auto pair = [&](const std::string& name, std::int64_t slots) {
        plan->barriers.push_back({name + "_full", slots, 1, 0});
        plan->barriers.push_back({name + "_empty", slots, 0, c.consumers});
    };
    pair("q", 1), pair("k", c.stages), pair("v", c.stages), pair("tile", 2);

    using P = ProducerKind;
    using C = ConsumerKind;
    const auto edge = [&](const std::string& name, P producer, C consumer, const std::string& memory) {
        plan->edges.push_back({name, producer, SignalKind::Barrier, EdgeScope::Cta, consumer, memory});
    };
    for (const char* name : {"q", "k", "v"}) {
        edge(std::string(name) + "_loaded", P::Bulk, C::Mma, std::string(name) + "_stage");
        edge(std::string(name) + "_free", P::Mma, C::Overwrite, std::string(name) + "_stage");
    }
    edge("tile", P::Store, C::Load, "tile_slot");
    edge("tile_free", P::Store, C::Overwrite, "tile_slot");
}

void declare_agents(const Choices& c, Plan* plan) {
    plan->roles = {{"compute", "sms", 0}, {"intra_comm", "none", 0}, {"inter_send", "none", 0}, {"inter_reduce", "none", 0}};
    for (const char* name : {"compute_loader", "compute_consumer"})
        plan->programs.push_back({name, "compute", Expr(0), Expr("ctas"), c.pattern.source, {}});
    plan->agents = {{"loader", AgentKind::Thread, 0, 0, {"compute_loader"}}};
    for (int i = 0; i < int(c.consumers); ++i)
        plan->agents.push_back({fmt::format("consumer{}", i), AgentKind::Warpgroup, 1 + i, 0, {"compute_consumer"}});
}

std::string tile_word(TileWord word) { return slot("tile_slot", "ring", kTileWords, int(word)); }

void declare_tile(Block& b, const Choices& c) {
    const bool causal = c.pattern.causal;
    b.let("head", "raster_row(t, batch * heads, row_tiles, group)");
    if (causal) b.note("longest rows first: short ones fill the gaps at the end");
    b.let("row", causal ? "(row_tiles - 1 - raster_col(t, batch * heads, row_tiles, group)) * tile_m"
                        : "raster_col(t, batch * heads, row_tiles, group) * tile_m");
}

std::string blocks_before(const Choices& c, const std::string& row, std::int64_t least) {
    return fmt::format("ceil_div(min(keys, max({}, min({}, M) + {})), key_block)", least, row, c.pattern.causal_offset);
}

void declare_blocks(Block& b, const Choices& c) {
    b.let("blocks", c.pattern.causal ? blocks_before(c, "row + tile_m", 0) : "ceil_div(keys, key_block)");
}

}  // namespace plait::attention
