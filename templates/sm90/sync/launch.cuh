// Launch protocol: epoch, tile counter, counting agents and CTAs out. All words lie in this GPU's DeviceState.
#pragma once
#include "flag.cuh"

namespace plait {

// Relaxed is enough: the epoch was advanced by the last CTA of the previous launch on this stream.
template <class Args>
PLAIT_DEVICE i64 enter(Agent&, const Args& args) {
    return static_cast<i64>(ptx::load_relaxed_gpu(&args.launch.state->epoch) + 1);
}

// Of a warpgroup the elected thread has it alone.
template <class Args>
PLAIT_DEVICE i64 fetch_tile(Agent& ag, const Args& args) {
    if (!ag.elected()) return 0;
    return static_cast<i64>(ptx::fetch_add_relaxed_gpu(&args.launch.state->next_tile, 1));
}

template <class Args>
PLAIT_DEVICE bool aborted(Agent&, const Args& args) {
    return ptx::load_relaxed_gpu(&args.launch.state->abort) != 0;
}

template <class Args>
PLAIT_DEVICE void agent_finished(Agent& ag, const Args& args) {
    if (ag.elected()) ptx::add_release_gpu(&args.launch.state->finished, 1);
}
template <class Args>
PLAIT_DEVICE i64 agents_finished(Agent&, const Args& args) {
    return static_cast<i64>(ptx::load_relaxed_gpu(&args.launch.state->finished));
}

// After cta_barrier, one thread. acq_rel on one counter: the last CTA out has every other one's accesses to the words
// below before its own (PTX ISA, "Release and Acquire Patterns": read-modify-write chains).
template <class Args>
PLAIT_DEVICE void leave(Agent& ag, const Args& args) {
    DeviceState* state = args.launch.state;
    if (ptx::fetch_add_acq_rel_gpu(&state->ctas_out, 1) + 1 != static_cast<u64>(ag.ctas)) return;
    state->next_tile = 0;
    state->finished = 0;
    state->ctas_in = 0;
    state->ctas_out = 0;
    state->epoch += 1;
}

}  // namespace plait
