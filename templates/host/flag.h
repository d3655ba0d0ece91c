// Flags. A wait that meets the abort gives up: it sets `stopped`, and the role runs on to its end without signalling.
#pragma once
#include "address.h"
#include "words.h"

#include "../launch_watch.h"

namespace plait {

static inline void signal_set(Agent& ag, Flag* flag, u64 value, Scope scope) {
    if (!ag.stopped) ag.engine->signal(ag.handle, ag.elected, flag, value, Update::Set, scope, Order::Ordered);
}
static inline void signal_add(Agent& ag, Flag* flag, u64 value, Scope scope) {
    if (!ag.stopped) ag.engine->signal(ag.handle, ag.elected, flag, value, Update::Add, scope, Order::Ordered);
}

// How long an engine waits before the deadline is asked for again: it moves when the last rank enters.
inline constexpr u64 kLookAgainNs = 1000000000;

template <class Args>
void wait_flags(Agent& ag, const Args& args, const Flag* first, i64 count, u64 value, Scope scope, i64 site) {
    if (ag.stopped || count <= 0) return;
    const u64 start = clock_ns(ag);
    WaitResult result;
    do {
        const u64 deadline = wait_deadline(ag, args, start), again = clock_ns(ag) + kLookAgainNs;
        result = ag.engine->wait(ag.handle, Lane::Members, first, static_cast<u64>(count), value, scope, Order::Ordered,
                                 static_cast<u32>(site), deadline < again ? deadline : again);
    } while (result == WaitResult::Expired && clock_ns(ag) < wait_deadline(ag, args, start));
    if (result == WaitResult::Reached) return;
    if (result == WaitResult::Expired) {
        i64 missing = 0;
        while (missing + 1 < count && word_peek(ag, first + missing, scope) >= value) missing += 1;
        give_up(ag, args, Finding{AbortCause::Wait, first + missing, value, word_peek(ag, first + missing, scope),
                                  static_cast<u64>(site), 0});
    }
    ag.stopped = true;
}
template <class Args>
void wait_flag(Agent& ag, const Args& args, const Flag* flag, u64 value, Scope scope, i64 site) {
    wait_flags(ag, args, flag, 1, value, scope, site);
}

}  // namespace plait
