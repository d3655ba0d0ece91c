// What the choices of every kernel share, and what every Plan says of itself.
#pragma once
#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"

namespace plait {

struct KernelChoices {
    std::int64_t world = 1, nodes = 1, locals = 1;
    std::int64_t m_max = 0;
    std::int64_t consumers = 0;  // warpgroups
    std::int64_t producer_registers = 0, consumer_registers = 0;
    std::int64_t threads() const { return 128 * (1 + consumers); }

    void read_machine(const Problem& problem, const Topology& topology);
};

struct MatmulChoices : KernelChoices {
    std::int64_t n = 0, k = 0;
    std::int64_t tile_m = 0, tile_n = 0, tile_k = 0, k_boxes = 1, k_blocks = 0, stages = 0;
    std::int64_t consumer_rows = 0;  // rows of a tile that one consumer warpgroup computes
    std::int64_t raster_group = 0;
    std::int64_t a_stage_bytes = 0, b_stage_bytes = 0;  // of 64 of k, a stage has k_boxes; b: of one half where gated

    void read_tile(const Schedule& schedule, const Problem& problem, bool transpose_b);
    std::vector<Constant> constants() const;  // of the Plan
};

// Name, target, ranks and threads of the Plan.
void declare_kernel(const Graph& graph, const Target& target, const KernelChoices& choices, Plan* plan);

}  // namespace plait
