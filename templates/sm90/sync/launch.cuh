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
// Acquire: whoever sees that an agent is done also sees the abort that it raised.
template <class Args>
PLAIT_DEVICE i64 agents_finished(Agent&, const Args& args) {
    return static_cast<i64>(ptx::load_acquire_gpu(&args.launch.state->finished));
}

// One thread a CTA, at its start: the entry deadline says how many were started.
template <class Args>
PLAIT_DEVICE void count_in(Agent&, const Args& args) {
    ptx::add_relaxed_gpu(&args.launch.state->ctas_in, 1);
}

// After cta_barrier, one thread. acq_rel on one counter: the last CTA out has every other one's accesses to the words
// below before its own (PTX ISA, "Release and Acquire Patterns": read-modify-write chains). True in the last CTA out of
// a launch that was given up: all stores of all CTAs are complete, and its outputs may be overwritten.
template <class Args>
PLAIT_DEVICE bool leave(Agent& ag, const Args& args) {
    DeviceState* state = args.launch.state;
    const u64 before = ptx::fetch_add_acq_rel_gpu(&state->ctas_out, 1);
    if (before % kGivenUp + 1 != static_cast<u64>(ag.ctas)) return false;
    const u64 epoch = state->epoch + 1;
    if (args.launch.nodes > 1) ptx::store_relaxed_sys(&args.launch.host->launch_ended, epoch);
    state->next_tile = 0;
    state->finished = 0;
    state->ctas_in = 0;
    state->ctas_out = 0;
    state->all_entered_ns = 0;
    state->watch_start_ns = 0;
    state->epoch = epoch;
    if (before >= kGivenUp) return true;
    state->stall.epoch = 0;   // of no launch, until the next one's relay says which
    return false;
}

// The whole CTA: true where `last_of_aborted` was in one thread.
PLAIT_DEVICE bool cta_any(Agent&, bool value) { return ptx::sync_cta_any(value); }

// The whole CTA: every byte 0xff, which is NaN in every floating type. 16 bytes a thread where the address allows.
template <class T>
PLAIT_DEVICE void fill_nan(Agent&, T* first, i64 count) {
    u8* bytes = reinterpret_cast<u8*>(first);
    const u64 size = static_cast<u64>(count) * sizeof(T);
    const u64 wide = reinterpret_cast<u64>(bytes) % 16 == 0 ? size / 16 * 16 : 0;
    for (u64 at = 16 * threadIdx.x; at < wide; at += 16 * blockDim.x) ptx::store_ones(bytes + at);
    for (u64 at = wide + threadIdx.x; at < size; at += blockDim.x) bytes[at] = 0xff;
}

template <class T>
PLAIT_DEVICE void fill_nan_rows(Agent& ag, T* first, i64 rows, i64 columns, i64 pitch) {
    for (i64 r = 0; r < rows; r += 1) fill_nan(ag, reinterpret_cast<T*>(reinterpret_cast<u8*>(first) + r * pitch), columns);
}

}  // namespace plait
