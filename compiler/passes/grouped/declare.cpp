// What stands in a grouped matmul's Plan beside its programs.
#include <fmt/format.h>

#include "compiler/passes/grouped/programs.h"

namespace plait::grouped {
namespace {

using Exprs = std::vector<Expr>;

void declare_sizes(const Graph& graph, const Target& target, const Choices& c, Plan* plan) {
    declare_kernel(graph, target, c, plan);
    plan->consts = c.constants();
    if (c.pattern.gathers()) {
        // Steps towards the next tile, so many blocks before the end of this one, or at once where there are fewer.
        plan->consts.push_back({"lag", c.lag});
        plan->lets = {{"fetch_at", Expr("max(k_blocks - 16, 0)")},
                      {"put_at", Expr("max(k_blocks - 12, 0)")},
                      {"find_at", Expr("max(k_blocks - 8, 0)")},
                      {"index_at", Expr("max(k_blocks - 4, 0)")}};
    }
    for (const auto& [name, max] : c.limits) plan->params.push_back({name, max, name == "experts"});
}

void declare_tensors(const Graph& graph, const Choices& c, Plan* plan) {
    const GroupedPattern& p = c.pattern;
    for (const GraphTensor& tensor : graph.inputs)
        plan->tensors.push_back({tensor.name, tensor.dtype, tensor.shape, false});
    plan->tensors.push_back({p.output, p.output_dtype, {Expr("M"), Expr("N")}, true});

    const auto matrix = [&](const char* name, const std::string& memory, const std::string& dtype, const char* columns,
                            const char* rows, std::int64_t box_rows) {
        const Exprs strides = {Expr(fmt::format("{} * 2", columns)), Expr(fmt::format("{} * 2 * {}", columns, rows))};
        plan->maps.push_back(
            {name, 0, memory, dtype, 0, {Expr(columns), Expr(rows), Expr(1)}, strides, {64, box_rows, 1}});
    };
    if (!p.gathers()) matrix("x_map", p.x, p.dtype, "K", "M", c.tile_m);
    // z is the expert: a box clips at N and K, and never reaches into the next expert.
    const Exprs extent =
        p.transpose_b ? Exprs{Expr("K"), Expr("N"), Expr("experts")} : Exprs{Expr("N"), Expr("K"), Expr("experts")};
    const Exprs strides = {Expr(p.transpose_b ? "K * 2" : "N * 2"), Expr("N * K * 2")};
    plan->maps.push_back({"w_map", 0, p.w, p.dtype, 0, extent, strides, {64, p.transpose_b ? c.tile_n : 64, 1}});
    matrix("out_map", p.output, p.output_dtype, "N", "M", 64);
}

void declare_memory(const Choices& c, Plan* plan) {
    plan->shared = {{"a_stage", c.a_stage_bytes, c.stages, 1024},
                    {"b_stage", c.b_stage_bytes, c.stages, 1024},
                    {"out_box", 64 * 64 * 2, 2 * c.consumers, 1024},
                    {"tile_row", 8, 2, 16},
                    {"tile_rows", 8, 2, 16},
                    {"tile_col", 8, 2, 16}};
    if (c.pattern.gathers()) plan->shared.push_back({"tile_number", 8, 2, 16});
    const std::int64_t threads = c.pattern.gathers() ? 0 : 1;
    if (c.pattern.gathers()) {
        plan->barriers = {{"a_full", c.stages, 0, 1}, {"b_full", c.stages, 1, 0}};
    } else {
        plan->barriers = {{"ab_full", c.stages, 1, 0}};
    }
    plan->barriers.push_back({"ab_empty", c.stages, 0, c.consumers});
    plan->barriers.push_back({"tile_full", 2, threads, 1 - threads});
    plan->barriers.push_back({"tile_empty", 2, 0, c.consumers});
}

void declare_edges(const Choices& c, Plan* plan) {
    using P = ProducerKind;
    using S = SignalKind;
    using E = EdgeScope;
    using C = ConsumerKind;
    if (c.pattern.gathers()) {
        plan->edges = {{"a_gathered", P::Gather, S::Barrier, E::Cta, C::Mma, "a_stage"},
                       {"b_loaded", P::Bulk, S::Barrier, E::Cta, C::Mma, "b_stage"}};
    } else {
        plan->edges = {
            {"ab", P::Bulk, S::Barrier, E::Cta, C::Mma, "a_stage"}};  // operands of one k block, b_stage with them
    }
    plan->edges.push_back({"ab_free", P::Mma, S::Barrier, E::Cta, C::Overwrite, "a_stage"});
    plan->edges.push_back({"tile", P::Store, S::Barrier, E::Cta, C::Load, "tile_row"});
    plan->edges.push_back({"tile_free", P::Store, S::Barrier, E::Cta, C::Overwrite, "tile_row"});
}

void place_roles(const Choices& c, Plan* plan) {
    plan->roles = {{"compute", "sms", 0}};
    const auto agent = [&](const std::string& name, AgentKind kind, int warpgroup) {
        plan->agents.push_back({name, kind, warpgroup, 0, {"compute_" + name}});
        plan->programs.push_back({"compute_" + name, "compute", Expr(0), Expr("ctas"), c.pattern.source, {}});
    };
    if (c.pattern.gathers())
        agent("gather", AgentKind::Warpgroup, 0);
    else
        agent("loader", AgentKind::Thread, 0);
    for (std::int64_t i = 0; i < c.consumers; ++i)
        agent(fmt::format("consumer{}", i), AgentKind::Warpgroup, int(1 + i));
}

}  // namespace

void declare(const Graph& graph, const Target& target, const Choices& c, Plan* plan) {
    declare_sizes(graph, target, c, plan);
    declare_tensors(graph, c, plan);
    declare_memory(c, plan);
    declare_edges(c, plan);
    place_roles(c, plan);
}

}  // namespace plait::grouped
