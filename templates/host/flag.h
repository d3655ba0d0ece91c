// Flags. A wait that meets the abort gives up: it sets `stopped`, and the role runs on to its end without signalling.
#pragma once
#include "address.h"
#include "agent.h"

namespace plait {

static inline void signal_set(Agent& ag, Flag* flag, u64 value, Scope scope) {
    if (!ag.stopped) ag.engine->signal(ag.handle, ag.elected, flag, value, Update::Set, scope, Order::Ordered);
}
static inline void signal_add(Agent& ag, Flag* flag, u64 value, Scope scope) {
    if (!ag.stopped) ag.engine->signal(ag.handle, ag.elected, flag, value, Update::Add, scope, Order::Ordered);
}

template <class Args>
void wait_flags(Agent& ag, const Args&, const Flag* first, i64 count, u64 value, Scope scope, i64 site) {
    if (ag.stopped || count <= 0) return;
    const u32 gave_up = ag.engine->wait(ag.handle, Lane::Members, first, static_cast<u64>(count), value, scope,
                                        Order::Ordered, static_cast<u32>(site));
    if (gave_up != 0) ag.stopped = true;
}
template <class Args>
void wait_flag(Agent& ag, const Args& args, const Flag* flag, u64 value, Scope scope, i64 site) {
    wait_flags(ag, args, flag, 1, value, scope, site);
}

}  // namespace plait
