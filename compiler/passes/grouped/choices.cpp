#include "compiler/passes/grouped/choices.h"

#include <algorithm>

namespace plait::grouped {
namespace {

constexpr std::int64_t kElement = 2;  // bf16, f16
constexpr std::int64_t kBoxBytes = 64 * 64 * kElement;
constexpr std::int64_t kBarrierRoom = 1024;  // barriers, ring slots and alignment
constexpr std::int64_t kLag = 2;

std::int64_t shared_bytes(const Choices& c) {
    return c.stages * (c.a_stage_bytes + c.b_stage_bytes) + 2 * c.consumers * kBoxBytes + kBarrierRoom;
}

// Out of what the launch got, 168 x threads at two consumers. A gather keeps eight or more 64-bit addresses a thread:
// below 88 registers ptxas makes them one after the other.
void choose_registers(Choices* c) {
    const bool wide = c->consumer_rows * c->tile_n > 128 * 128, gathers = c->pattern.gathers();
    c->producer_registers = gathers ? 104 : c->consumers == 2 && !wide ? 72 : 56;
    c->consumer_registers = c->consumers == 1   ? 240
                            : c->consumers == 2 ? (gathers ? 200
                                                   : wide  ? 224
                                                           : 216)
                                                : (gathers ? 136 : 152);
}

}  // namespace

Choices resolve_choices(const GroupedPattern& pattern, const Schedule& schedule, const Problem& problem,
                        const Topology& topology, const Target& target) {
    Choices c;
    c.pattern = pattern;
    c.read_machine(problem, topology);
    c.read_tile(schedule, problem, pattern.transpose_b);
    c.limits = problem.limits;
    if (!schedule.is_set("stages")) {
        while (c.stages > 2 && shared_bytes(c) > target.shared_memory_bytes) c.stages -= 1;
    }
    c.lag = std::min(kLag, c.stages - 1);
    choose_registers(&c);
    return c;
}

}  // namespace plait::grouped
