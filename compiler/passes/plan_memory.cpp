#include "compiler/passes/plan_memory.h"

#include "compiler/ir/plan_sizes.h"

namespace plait {
namespace {

constexpr std::uint64_t kAreaAlignment = 1024;

std::uint64_t align_up(std::uint64_t value) { return (value + kAreaAlignment - 1) / kAreaAlignment * kAreaAlignment; }

void place_in_workspace(Plan* plan) {
    std::uint64_t offset = 0;
    for (BufferDef& buffer : plan->buffers) {
        buffer.offset = offset;
        std::uint64_t bytes = std::uint64_t(element_bytes(buffer.dtype));
        for (std::int64_t dim : buffer.shape) bytes *= std::uint64_t(dim);
        offset = align_up(offset + bytes);
    }
    for (FlagDef& flag : plan->flags) {
        if (flag.session) continue;
        flag.offset = offset;
        offset = align_up(offset + 8 * std::uint64_t(flag.count));
    }
}

}  // namespace

void plan_memory(const Choices& c, Plan* plan) {
    if (c.communicates) {
        plan->buffers.push_back({"a_full", c.pattern.dtype, {2, c.world, c.shard_max, c.k}, 0});
        plan->flags.push_back({"a_ready", c.world * c.chunks_max, 0, false});
        plan->flags.push_back({"entered", c.world, 0, true});
        place_in_workspace(plan);
    }

    const std::int64_t slots = c.stages * c.k_boxes;
    plan->shared.push_back({"a_stage", c.a_stage_bytes, slots, 1024});
    plan->shared.push_back({"b_stage", c.b_stage_bytes, slots, 1024});
    if (c.pattern.gated) plan->shared.push_back({"up_stage", c.b_stage_bytes, slots, 1024});
    plan->shared.push_back({"c_box", 64 * 128, c.output_boxes * c.consumers, 1024});
    if (c.any("warp")) plan->shared.push_back({"piece", c.piece_bytes, c.pieces, 128});
    if (c.communicates) plan->shared.push_back({"tile_slot", 8, 2, 16});

    plan->barriers.push_back({"ab_full", c.stages, 1, 0});
    plan->barriers.push_back({"ab_empty", c.stages, 0, c.cluster * c.consumers});
    if (!c.communicates) return;
    plan->barriers.push_back({"tile_full", 2, 1, 0});
    plan->barriers.push_back({"tile_empty", 2, 0, c.consumers});
    if (c.inter_send.active()) plan->barriers.push_back({"inter_send_full", c.pieces, 1, 0});
    if (c.intra_comm.active()) plan->barriers.push_back({"intra_comm_full", c.pieces, 1, 0});
}

}  // namespace plait
