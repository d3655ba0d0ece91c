// Rings of shared-memory slots: barriers and the agent-uniform values handed through them.
#pragma once
#include "agent.h"

namespace plait {

struct Barrier {
    u64 word;  // the engine's
};

inline constexpr i64 kWarpgroupArrivals = 1;  // a warpgroup agent is one fiber

template <u32 Slots>
struct Pipe {
    u32 slot = 0;
    u32 phase = 0;

    void advance() {
        slot += 1;
        if (slot == Slots) {
            slot = 0;
            phase ^= 1;
        }
    }
};

static inline void barrier_init(Agent& ag, Barrier& bar, i64 arrivals) {
    ag.engine->barrier_init(ag.handle, &bar, static_cast<u32>(arrivals));
}
static inline void fence_barrier_init(Agent& ag) { ag.engine->fence_proxy_async(ag.handle, Lane::Members); }
static inline void barrier_wait(Agent& ag, Barrier& bar, u32 parity) {
    ag.engine->barrier_wait(ag.handle, Lane::Members, &bar, parity);
}
static inline void barrier_arrive(Agent& ag, Barrier& bar) {
    ag.engine->barrier_arrive(ag.handle, Lane::Members, &bar, 1, 0);
}
// One arrival at each of the `Ctas` CTAs of the cluster.
template <i64 Ctas>
void cluster_arrive(Agent& ag, Barrier& bar) {
    for (u32 cta = 0; cta < Ctas; cta += 1) ag.engine->cluster_arrive(ag.handle, Lane::Members, &bar, cta);
}
static inline void barrier_expect(Agent& ag, Barrier& bar, i64 bytes) {
    ag.engine->barrier_arrive(ag.handle, ag.elected, &bar, 1, static_cast<u64>(bytes));
}

static inline void ring_put(Agent& ag, i64& slot, i64 value) {
    ag.engine->access(ag.handle, ag.elected, Proxy::Generic, Access::Write, &slot, sizeof(slot), 1, sizeof(slot));
    slot = value;
}
static inline i64 ring_get(Agent& ag, const i64& slot) {
    declare_access(ag, Access::Read, &slot, sizeof(slot));
    return slot;
}

}  // namespace plait
