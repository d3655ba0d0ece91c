// Flags. The signalling thread is the one that issued the bulk stores and waited for them (bulk_wait), or has met those
// that wrote (agent_sync). The waiter polls its own GPU's memory with an acquire; a wait that meets `abort`, or outlasts
// its deadline, gives up: it sets `stopped`, and the role runs on to its end without signalling. No trap: ptxas ignores
// setmaxnreg where a role can trap.
#pragma once
#include "address.cuh"
#include "words.cuh"

#include "../../launch_watch.h"

namespace plait {

PLAIT_DEVICE void signal_set(Agent& ag, Flag* flag, u64 value, Scope scope) {
    if (ag.elected() && !ag.stopped) ptx::store_release(flag, value, scope);
}
PLAIT_DEVICE void signal_add(Agent& ag, Flag* flag, u64 value, Scope scope) {
    if (ag.elected() && !ag.stopped) ptx::add_release(flag, value, scope);
}

inline constexpr u32 kPollsPerAbortCheck = 64;

// One flag, every thread of the agent for itself.
template <class Args>
PLAIT_DEVICE void wait_flag(Agent& ag, const Args& args, const Flag* flag, u64 value, Scope scope, i64 site) {
    if (ag.stopped) return;
    u64 seen = ptx::load_acquire(flag, scope);
    if (seen >= value) return;
    const u64 start = clock_ns(ag);
    for (u32 polls = 1;; polls += 1) {
        seen = ptx::load_acquire(flag, scope);
        if (seen >= value) return;
        if (polls % kPollsPerAbortCheck != 0) continue;
        if (ptx::load_relaxed_gpu(&args.launch.state->abort) != 0) break;
        if (clock_ns(ag) < wait_deadline(ag, args, start)) continue;
        give_up(ag, args, Finding{AbortCause::Wait, flag, value, seen, static_cast<u64>(site), 0});
        break;
    }
    ag.stopped = true;
}

template <class Args>
PLAIT_DEVICE void wait_flags(Agent& ag, const Args& args, const Flag* first, i64 count, u64 value, Scope scope, i64 site) {
    for (i64 i = 0; i < count; i += 1) wait_flag(ag, args, first + i, value, scope, site);
}

}  // namespace plait
