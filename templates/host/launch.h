// Launch protocol: epoch, tile counter, counting agents and CTAs out. All words lie in this rank's DeviceState.
#pragma once
#include "flag.h"

namespace plait {

// Relaxed is enough: the epoch was advanced by the last CTA of the previous launch on this stream.
template <class Args>
i64 enter(Agent& ag, const Args& args) {
    return static_cast<i64>(
        ag.engine->load(ag.handle, Lane::Members, &args.launch.state->epoch, Scope::Gpu, Order::Relaxed) + 1);
}

template <class Args>
i64 fetch_tile(Agent& ag, const Args& args) {
    return static_cast<i64>(
        ag.engine->fetch_add(ag.handle, ag.elected, &args.launch.state->next_tile, 1, Scope::Gpu, Order::Relaxed));
}

template <class Args>
bool aborted(Agent& ag, const Args& args) {
    return ag.engine->load(ag.handle, Lane::Members, &args.launch.state->abort, Scope::Gpu, Order::Relaxed) != 0;
}

template <class Args>
void agent_finished(Agent& ag, const Args& args) {
    ag.engine->signal(ag.handle, ag.elected, &args.launch.state->finished, 1, Update::Add, Scope::Gpu, Order::Ordered);
}
template <class Args>
i64 agents_finished(Agent& ag, const Args& args) {
    return static_cast<i64>(
        ag.engine->load(ag.handle, Lane::Members, &args.launch.state->finished, Scope::Gpu, Order::Relaxed));
}

static inline void reset_word(Agent& ag, u64* word, u64 value) {
    ag.engine->signal(ag.handle, ag.elected, word, value, Update::Set, Scope::Gpu, Order::Relaxed);
}

// One thread a CTA, at its start: the entry deadline says how many were started.
template <class Args>
void count_in(Agent& ag, const Args& args) {
    ag.engine->signal(ag.handle, ag.elected, &args.launch.state->ctas_in, 1, Update::Add, Scope::Gpu, Order::Relaxed);
}

// After cta_barrier, one thread. Acquire and release on one counter: the last CTA out has every other one's accesses to
// the words below before its own. True in the last CTA out of a launch that was given up: all stores of all CTAs are
// complete, and its outputs may be overwritten.
template <class Args>
bool leave(Agent& ag, const Args& args) {
    DeviceState* state = args.launch.state;
    const u64 before = ag.engine->fetch_add(ag.handle, ag.elected, &state->ctas_out, 1, Scope::Gpu, Order::Ordered);
    if (before % kGivenUp + 1 != static_cast<u64>(ag.ctas)) return false;
    const u64 epoch = state->epoch + 1;
    if (args.launch.nodes > 1) word_poke(ag, &args.launch.host->launch_ended, epoch, Scope::System);
    reset_word(ag, &state->next_tile, 0);
    reset_word(ag, &state->finished, 0);
    reset_word(ag, &state->ctas_in, 0);
    reset_word(ag, &state->ctas_out, 0);
    reset_word(ag, &state->all_entered_ns, 0);
    reset_word(ag, &state->watch_start_ns, 0);
    reset_word(ag, &state->epoch, epoch);
    if (before >= kGivenUp) return true;
    reset_word(ag, &state->stall.epoch, 0);  // of no launch, until the next one's relay says which
    return false;
}

// All agents meet on sm90, where all threads fill; here one agent does.
static inline bool cta_any(Agent&, bool value) { return value; }

// Every byte 0xff, which is NaN in every floating type.
template <class T>
void fill_nan(Agent& ag, T* first, i64 count) {
    const u64 size = static_cast<u64>(count) * sizeof(T);
    u8* bytes = reinterpret_cast<u8*>(first);
    if (size != 0) declare_access(ag, Access::Write, bytes, size);
    for (u64 at = 0; at < size; at += 1) bytes[at] = 0xff;
}

template <class T>
void fill_nan_rows(Agent& ag, T* first, i64 rows, i64 columns, i64 pitch) {
    for (i64 r = 0; r < rows; r += 1) fill_nan(ag, reinterpret_cast<T*>(reinterpret_cast<u8*>(first) + r * pitch), columns);
}

}  // namespace plait
