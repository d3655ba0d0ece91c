#include "compiler/passes/kernel_choices.h"

#include "compiler/ir/integers.h"

namespace plait {
namespace {

constexpr std::int64_t kElement = 2;    // bf16, f16
constexpr std::int64_t kBoxDepth = 64;  // of k in one slot: a swizzled row of 128 bytes

}  // namespace

void KernelChoices::read_machine(const Problem& problem, const Topology& topology) {
    nodes = topology.nodes;
    locals = topology.gpus_per_node;
    world = nodes * locals;
    m_max = problem.m_max;
}

void MatmulChoices::read_tile(const Schedule& schedule, const Problem& problem, bool transpose_b) {
    n = problem.n;
    k = problem.k;
    tile_m = schedule.integer("tile_m");
    tile_n = schedule.integer("tile_n");
    tile_k = schedule.integer("tile_k");
    k_boxes = tile_k / kBoxDepth;
    stages = schedule.integer("stages");
    consumers = schedule.integer("consumer_warpgroups");
    consumer_rows = tile_m / consumers;
    k_blocks = ceil_div(k, tile_k);
    raster_group = schedule.integer("raster_group");
    a_stage_bytes = tile_m * kBoxDepth * kElement;
    b_stage_bytes = (transpose_b ? tile_n : ceil_div(tile_n, 64) * 64) * kBoxDepth * kElement;
}

std::vector<Constant> MatmulChoices::constants() const {
    return {{"N", n},
            {"K", k},
            {"tile_m", tile_m},
            {"tile_n", tile_n},
            {"tile_k", tile_k},
            {"k_blocks", k_blocks},
            {"stages", stages},
            {"col_tiles", ceil_div(n, tile_n)},
            {"raster_group", raster_group}};
}

void declare_kernel(const Graph& graph, const Target& target, const KernelChoices& choices, Plan* plan) {
    plan->name = graph.name;
    plan->target = target.arch;
    plan->world = choices.world;
    plan->nodes = choices.nodes;
    plan->locals = choices.locals;
    plan->m_max = choices.m_max;
    plan->threads = choices.threads();
    plan->producer_registers = choices.producer_registers;
    plan->consumer_registers = choices.consumer_registers;
}

}  // namespace plait
