// The agent: who runs a role body. Warpgroup 0 holds one-thread agents (lane 0 of a warp each), or is one agent that gathers
// rows; every other warpgroup is one agent of 128 threads, whose first thread issues its bulk operations and signals.
#pragma once
#include "../ptx/barrier.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/mbarrier.cuh"
#include "../ptx/registers.cuh"

// Each agent function is one branch of the kernel: setmaxnreg raises or lowers the registers of a branch, not of a call.
#define PLAIT_AGENT static __device__ __forceinline__

namespace plait {

enum class Lane : u32 { Members = 0, Elected = 1 };
// The words of runtime/trace/trace_kind.h.
enum class TraceKind : u32 { Idle = 0, Wait = 1, Load = 2, Compute = 3, Store = 4, Push = 5, Send = 6, Relay = 7, Arrived = 8 };

struct Agent {
    i64 cta, ctas;
    u32 warpgroup, warp, lane;   // warp: of the warpgroup
    bool stopped;                // a wait gave up: this agent signals no more, since a flag implies data
    i32 work;                    // tile or chunk that it is at, for a stall's record; -1: none
    bool group;                  // 128 threads; the kernel's entry says so where warpgroup 0 is one agent

    PLAIT_DEVICE bool is_group() const { return group; }
    PLAIT_DEVICE bool is_thread(u32 of_warpgroup, u32 of_warp) const {
        return warpgroup == of_warpgroup && warp == of_warp && lane == 0;
    }
    // True in the thread that issues and signals. Always true of a one-thread agent.
    PLAIT_DEVICE bool elected() const { return !is_group() || (warp == 0 && lane == 0); }
};

PLAIT_DEVICE Agent make_agent() {
    const u32 warp = ptx::broadcast(threadIdx.x / 32);
    const u32 warpgroup = warp / 4;
    // By the value that the kernel's entry branches on, so that it is a constant in each branch.
    return Agent{blockIdx.x, gridDim.x, warpgroup, warp % 4, threadIdx.x % 32, false, -1, warpgroup != 0};
}

// Dynamic shared memory of the CTA. Nothing static is declared, so that it starts at the window's first 1024 bytes' end.
template <class Shared>
PLAIT_DEVICE Shared& shared_memory() {
    extern __shared__ __align__(1024) u8 plait_shared[];
    return *reinterpret_cast<Shared*>(plait_shared);
}

template <int Count>
PLAIT_DEVICE void registers_producer() {
    ptx::decrease_registers<Count>();
}
template <int Count>
PLAIT_DEVICE void registers_consumer() {
    ptx::increase_registers<Count>();
}

PLAIT_DEVICE void cta_barrier(Agent&) { ptx::sync_cta(); }

PLAIT_DEVICE void cluster_barrier(Agent&) { ptx::sync_cluster(); }

// Barrier 0 is the CTA's; warpgroup w uses w, and warpgroup 0 the 7th.
PLAIT_DEVICE void agent_sync(Agent& ag) {
    if (ag.is_group()) ptx::sync_warpgroup(ag.warpgroup == 0 ? 7 : ag.warpgroup);
}

PLAIT_DEVICE void trace(Agent& ag, TraceKind kind, i64 value) { ag.work = kind == TraceKind::Idle ? -1 : static_cast<i32>(value); }

}  // namespace plait
