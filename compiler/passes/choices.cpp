#include "compiler/passes/choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/integers.h"
#include "compiler/ir/plan_sizes.h"
#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr std::int64_t kBoxRowBytes = 128, kBoxBytes = 64 * kBoxRowBytes;
constexpr std::int64_t kBarrierRoom = 1024;  // barriers, ring slots and alignment

// Registers a thread: what setmaxnreg gives, in steps of 8, out of what the launch got: 168 x threads. A loader that runs
// several roles spills at 40 and, in the largest plans, at 56; one that only loads is content with 40, and the consumers
// have the rest. Consumers with up to 128 registers of accumulator are at ease with 216, those with more need all that
// there is, and those with 192 in a cluster more than that: its loader spills ten words rather than they three.
void choose_registers(Choices* c) {
    const std::int64_t accumulator = c->consumer_rows * c->tile_n * (c->pattern.gated ? 2 : 1) / 128;
    const bool wide = accumulator > 128;
    if (c->consumers == 1) {
        c->producer_registers = c->communicates ? 56 : 40, c->consumer_registers = 240;
    } else if (c->consumers == 3) {
        c->producer_registers = c->communicates ? 56 : 32, c->consumer_registers = c->communicates ? 152 : 160;
    } else if (c->communicates) {
        c->producer_registers = wide ? 56 : 72, c->consumer_registers = wide ? 224 : 216;
    } else {
        const bool tight = accumulator > 176 && c->clustered();
        c->producer_registers = tight ? 24 : 40, c->consumer_registers = tight ? 240 : 232;
    }
}

RoleChoice choose_role(const Schedule& schedule, const std::string& role, bool has_work) {
    RoleChoice choice;
    const std::string& placement = schedule.word(role);
    if (!has_work) return choice;
    if (placement == "copy_engine") {
        throw ScheduleError(
            fmt::format("role {} is placed on the copy engine, which this version does not lower", role),
            "host-enqueued copies under graph replay need a fixed bank and gate kernels; use phase, sms or warp");
    }
    choice.placement = placement;
    if (placement == "sms" || placement == "phase") choice.sms = schedule.integer(role + "_sms");
    return choice;
}

std::int64_t shared_bytes(const Choices& c) {
    std::int64_t bytes = c.stages * c.stage_bytes() + c.output_boxes * c.consumers * kBoxBytes + kBarrierRoom;
    if (c.any("warp")) bytes += c.pieces * c.piece_bytes;
    return bytes;
}

// Copy buffers of the loader are operand slots, see plan_memory.
void fit_pieces(Choices* c, const Schedule& schedule) {
    if (!c->any("sms") && !c->any("phase")) return;
    if (!schedule.is_set("pieces")) c->pieces = std::min(c->pieces, c->stages);
    if (!schedule.is_set("piece_bytes")) c->piece_bytes = std::min(c->piece_bytes, c->a_stage_bytes);
}

}  // namespace

Choices resolve_choices(const Graph&, const FusedPattern& pattern, const Schedule& schedule, const Problem& problem,
                        const Topology& topology, const Target& target) {
    Choices c;
    c.pattern = pattern;
    c.read_machine(problem, topology);
    c.read_tile(schedule, problem, pattern.transpose_b);
    c.communicates = pattern.all_gather && c.world > 1;
    c.output_boxes = schedule.integer("output_boxes");
    c.box_cols = kBoxRowBytes / element_bytes(pattern.output_dtype);
    c.order = schedule.word("order");
    c.cluster = schedule.integer("cluster");
    c.shares_a = c.clustered() && schedule.word("cluster_along") == "n";
    c.shares_b = c.clustered() && !c.shares_a;

    c.shard_max = std::max<std::int64_t>(ceil_div(c.m_max, c.world), 1);
    c.chunk_rows = schedule.integer("chunk_rows");
    c.chunks_max = ceil_div(c.shard_max, c.chunk_rows);
    c.piece_bytes = schedule.integer("piece_bytes");
    c.pieces = schedule.integer("pieces");
    c.intra_comm = choose_role(schedule, "intra_comm", c.communicates && c.locals > 1);
    c.inter_send = choose_role(schedule, "inter_send", c.communicates && c.nodes > 1);

    // A mover has copy slots of its own; four would cost the operand ring a stage.
    if (c.any("warp") && !schedule.is_set("pieces")) c.pieces = std::min<std::int64_t>(c.pieces, 3);
    if (!schedule.is_set("stages")) {
        while (c.stages > 2 && shared_bytes(c) > target.shared_memory_bytes) c.stages -= 1;
    }
    fit_pieces(&c, schedule);
    c.lag = std::max<std::int64_t>(c.pieces / 2, 1);
    choose_registers(&c);
    return c;
}

}  // namespace plait
