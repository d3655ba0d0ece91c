// Hardware barriers among threads (PTX ISA, "barrier.sync"): order ordinary accesses of the threads that take part.
#pragma once
#include "space.cuh"

namespace plait::ptx {

// Not .aligned: warps whose lanes ran a one-thread agent may arrive diverged.
PLAIT_DEVICE void sync_cta() { asm volatile("barrier.sync 0;" ::: "memory"); }

// All threads meet; true in all of them where it was true in one (PTX ISA, "barrier.red").
PLAIT_DEVICE bool sync_cta_any(bool value) {
    u32 any;
    asm volatile(
        "{\n\t.reg .pred mine, any;\n\tsetp.ne.u32 mine, %1, 0;\n\tbarrier.red.or.pred any, 0, mine;\n\tselp.u32 %0, 1, 0, any;\n\t}"
        : "=r"(any)
        : "r"(static_cast<u32>(value))
        : "memory");
    return any != 0;
}

PLAIT_DEVICE void sync_warpgroup(u32 id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }

// Waits for, or counts towards, `threads` threads at barrier `id`; whole warps.
PLAIT_DEVICE void sync_barrier(u32 id, u32 threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
PLAIT_DEVICE void arrive_barrier(u32 id, u32 threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// All threads of the cluster meet. Relaxed: behind it they see what others fenced for the cluster before it
// (mbarrier_init_before_use) and no more; a release would be a membar of the GPU (PTX ISA, "barrier.cluster"). Not .aligned either.
PLAIT_DEVICE void sync_cluster() {
    asm volatile("barrier.cluster.arrive.relaxed;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

PLAIT_DEVICE void sync_warp() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

}  // namespace plait::ptx
