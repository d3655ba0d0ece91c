#include "compiler/passes/attention/choices.h"

namespace plait::attention {
namespace {

// Registers a thread: what setmaxnreg gives, in steps of 8, out of what the launch got (check_registers). Scores, result
// and weights of 64 rows take 192 of a consumer's where head dim is 128 or 256, and 128 where it is 64.
void choose_registers(Choices* c) {
    if (c->consumers == 3) {
        c->producer_registers = 32, c->consumer_registers = 160;
    } else {
        c->producer_registers = 40, c->consumer_registers = c->consumers == 1 ? 240 : 232;
    }
}

Overlap choose_overlap(const Choices& c, const std::string& word) {
    if (word == "serial") return Overlap::Serial;
    if (word == "products") return Overlap::Products;
    if (word == "rescale") return Overlap::Rescale;
    if (word == "operands") return Overlap::Operands;
    if (word == "joint") return Overlap::Joint;
    // The fastest of each on an H200. Three consumers have no registers for a second operand.
    return c.pattern.head_dim == 64 ? Overlap::Joint : Overlap::Operands;
}

}  // namespace

Choices resolve_choices(const AttentionPattern& pattern, const Schedule& schedule, const Problem& problem,
                        const Topology& topology) {
    Choices c;
    c.pattern = pattern;
    c.read_machine(problem, topology);
    c.keys_max = problem.limits.at("keys");
    c.batch_max = problem.limits.at("batch");

    c.consumers = schedule.is_set("consumer_warpgroups") ? schedule.integer("consumer_warpgroups") : schedule.integer("tile_m") / 64;
    c.tile_m = 64 * c.consumers;
    c.stages = schedule.is_set("stages") ? schedule.integer("stages") : 2;
    c.overlap = choose_overlap(c, schedule.word("overlap"));
    const std::string& turn = schedule.word("turn");
    c.turn = c.consumers > 1 && (turn == "on" || (turn == "auto" && (c.overlap == Overlap::Serial || c.overlap == Overlap::Joint)));
    // On an H200 three consumers gain 5 % at 2048 keys, two gain nothing and spill.
    c.skips = pattern.causal && c.consumers == 3;
    c.head_group = schedule.integer("head_group");
    choose_registers(&c);
    return c;
}

}  // namespace plait::attention
