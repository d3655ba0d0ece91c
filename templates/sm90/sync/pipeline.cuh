// Rings of shared-memory slots: mbarriers and the agent-uniform values handed through them.
#pragma once
#include "agent.cuh"

namespace plait {

struct Barrier {
    u64 word;   // opaque mbarrier object
};

// One arrival a warp: the warp meets first, so that the arrival releases what all its lanes did.
inline constexpr i64 kWarpgroupArrivals = 4;

template <u32 Slots>
struct Pipe {
    u32 slot = 0;
    u32 phase = 0;

    PLAIT_DEVICE void advance() {
        slot += 1;
        if (slot == Slots) {
            slot = 0;
            phase ^= 1;
        }
    }
};

PLAIT_DEVICE void barrier_init(Agent&, Barrier& bar, i64 arrivals) {
    ptx::mbarrier_init(ptx::shared_address(&bar), static_cast<u32>(arrivals));
}

PLAIT_DEVICE void fence_barrier_init(Agent&) { ptx::mbarrier_init_before_use(); }

PLAIT_DEVICE void barrier_wait(Agent&, Barrier& bar, u32 parity) {
    const u32 address = ptx::shared_address(&bar);
    while (!ptx::mbarrier_try_wait_parity(address, parity)) {
    }
}

PLAIT_DEVICE void barrier_arrive(Agent& ag, Barrier& bar) {
    if (ag.is_group()) {
        ptx::sync_warp();
        if (ag.lane != 0) return;
    }
    ptx::mbarrier_arrive(ptx::shared_address(&bar));
}

// One arrival at each of the `Ctas` CTAs of the cluster: of a warp, lane by lane.
template <i64 Ctas>
PLAIT_DEVICE void cluster_arrive(Agent& ag, Barrier& bar) {
    const u32 address = ptx::shared_address(&bar);
    if (ag.is_group()) {
        ptx::sync_warp();
        if (ag.lane < Ctas) ptx::mbarrier_arrive_cluster(ptx::address_in_cta(address, ag.lane));
        return;
    }
#pragma unroll
    for (u32 cta = 0; cta < Ctas; cta += 1) ptx::mbarrier_arrive_cluster(ptx::address_in_cta(address, cta));
}

// One arrival, of the thread that issues the loads.
PLAIT_DEVICE void barrier_expect(Agent& ag, Barrier& bar, i64 bytes) {
    if (!ag.elected()) return;
    ptx::mbarrier_arrive_expect_bytes(ptx::shared_address(&bar), static_cast<u32>(bytes));
}

PLAIT_DEVICE void ring_put(Agent& ag, i64& slot, i64 value) {
    if (ag.elected()) slot = value;
}

PLAIT_DEVICE i64 ring_get(Agent& ag, const i64& slot) {
    const i64 value = slot;
    if (!ag.is_group()) return value;
    const u32 low = ptx::broadcast(static_cast<u32>(value));
    const u32 high = ptx::broadcast(static_cast<u32>(static_cast<u64>(value) >> 32));
    return static_cast<i64>((static_cast<u64>(high) << 32) | low);
}

}  // namespace plait
