// Flags. The signalling thread is the one that issued the bulk stores and waited for them (bulk_wait), or has met those
// that wrote (agent_sync). The waiter polls its own GPU's memory with an acquire; a wait that meets `abort`, or outlasts
// its deadline, gives up: it sets `stopped`, and the role runs on to its end without signalling. No trap: ptxas ignores
// setmaxnreg where a role can trap.
#pragma once
#include "../ptx/memory.cuh"
#include "address.cuh"
#include "agent.cuh"

namespace plait {

PLAIT_DEVICE void signal_set(Agent& ag, Flag* flag, u64 value, Scope scope) {
    if (ag.elected() && !ag.stopped) ptx::store_release(flag, value, scope);
}
PLAIT_DEVICE void signal_add(Agent& ag, Flag* flag, u64 value, Scope scope) {
    if (ag.elected() && !ag.stopped) ptx::add_release(flag, value, scope);
}

// The first agent to give up says what it waited for; then all leave.
template <class Args>
PLAIT_DEVICE void report_stall(Agent& ag, const Args& args, const Flag* flag, u64 expected, u64 seen, i64 site) {
    DeviceState* state = args.launch.state;
    if (ptx::claim(&state->stall.taken)) {
        state->stall.site = static_cast<u64>(site);
        state->stall.flag = reinterpret_cast<u64>(flag);
        state->stall.expected = expected;
        state->stall.seen = seen;
        state->stall.cta = static_cast<u64>(ag.cta);
    }
    ptx::store_release_sys(&state->abort, 1);
    ptx::store_release_sys(&args.launch.host->abort, 1);   // the host's next launch refuses, see Session::launch
}

// Words of the Session's own area (`entered`) wait for another rank's launch, everything else for its work.
template <class Args>
PLAIT_DEVICE u64 deadline_ns(const Args& args, const Flag* flag) {
    const u64 place = reinterpret_cast<u64>(flag) - reinterpret_cast<u64>(args.launch.workspace[args.launch.local_rank]);
    return place < args.launch.artifact_offset ? args.launch.entry_deadline_ns : args.launch.wait_deadline_ns;
}

inline constexpr u32 kPollsPerAbortCheck = 64;

// One flag, every thread of the agent for itself.
template <class Args>
PLAIT_DEVICE void wait_flag(Agent& ag, const Args& args, const Flag* flag, u64 value, Scope scope, i64 site) {
    if (ag.stopped) return;
    u64 seen = ptx::load_acquire(flag, scope);
    if (seen >= value) return;
    const u64 start = ptx::globaltimer_ns();
    const u64 limit = deadline_ns(args, flag);
    for (u32 polls = 1;; polls += 1) {
        seen = ptx::load_acquire(flag, scope);
        if (seen >= value) return;
        if (polls % kPollsPerAbortCheck != 0) continue;
        if (ptx::load_relaxed_gpu(&args.launch.state->abort) != 0) break;
        if (ptx::globaltimer_ns() - start < limit) continue;
        report_stall(ag, args, flag, value, seen, site);
        break;
    }
    ag.stopped = true;
}

template <class Args>
PLAIT_DEVICE void wait_flags(Agent& ag, const Args& args, const Flag* first, i64 count, u64 value, Scope scope, i64 site) {
    for (i64 i = 0; i < count; i += 1) wait_flag(ag, args, first + i, value, scope, site);
}

}  // namespace plait
