// Address spaces, special registers, time. Everything else in ptx/ builds on this file.
#pragma once
#include "../../abi/types.h"

#define PLAIT_DEVICE __device__ __forceinline__

namespace plait::ptx {

// .shared::cta window address, what every shared-memory instruction below takes.
PLAIT_DEVICE u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

// .shared::cluster address of what lies at `address` of this CTA's window in CTA `cta` of the cluster (PTX ISA, "mapa").
PLAIT_DEVICE u32 address_in_cta(u32 address, u32 cta) {
    u32 mapped;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(cta));
    return mapped;
}

// Lane 0's value in every lane. Values from memory that are the same in all lanes become warp-uniform for ptxas, which
// then keeps loop state and descriptors in uniform registers. All lanes take part (PTX ISA, shfl.sync).
PLAIT_DEVICE u32 broadcast(u32 value) {
    asm volatile("shfl.sync.idx.b32 %0, %0, 0, 0x1f, 0xffffffff;" : "+r"(value));
    return value;
}

PLAIT_DEVICE u64 globaltimer_ns() {
    u64 ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

PLAIT_DEVICE void nanosleep(u32 ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns)); }

}  // namespace plait::ptx
