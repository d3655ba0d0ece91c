// mbarrier objects in shared memory (PTX ISA, "Parallel Synchronization: mbarrier"). Arrive releases and a successful
// test or try acquires at .cta scope by default.
#pragma once
#include "space.cuh"

namespace plait::ptx {

PLAIT_DEVICE void mbarrier_init(u32 bar, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

PLAIT_DEVICE void mbarrier_arrive(u32 bar) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

// `bar` is a .shared::cluster address, of this CTA or another one's barrier (PTX ISA, "mbarrier.arrive": no state is returned
// then). By default it releases at .cta scope: of what the thread did it hands on to another CTA only that asynchronous
// operations which the thread has waited for are over. `.release.cluster` would be a membar of the whole GPU.
PLAIT_DEVICE void mbarrier_arrive_cluster(u32 bar) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}

PLAIT_DEVICE void mbarrier_arrive_expect_bytes(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

// try_wait suspends the thread for a time the hardware chooses. Parity tells only neighbouring phases apart: the caller
// is never more than one phase away from the barrier.
PLAIT_DEVICE bool mbarrier_try_wait_parity(u32 bar, u32 parity) {
    u32 done;
    asm volatile(
        "{\n\t"
        ".reg .pred p;\n\t"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t"
        "}"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
    return done != 0;
}

}  // namespace plait::ptx
