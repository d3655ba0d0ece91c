// Fences. This is the only file that writes one; the names say what is ordered before what.
#pragma once
#include "space.cuh"

namespace plait::ptx {

// Ordinary (generic proxy) accesses of this thread to shared memory before -> bulk copies and wgmma after.
// PTX ISA, "membar/fence: fence.proxy.async"; a later barrier hands the effect to the thread that issues the copy.
PLAIT_DEVICE void generic_shared_before_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The same for global memory: what an acquire has made visible to ordinary loads becomes visible to TMA loads.
PLAIT_DEVICE void generic_global_before_async() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// mbarrier.init before -> the async proxy's and other threads' use of the barrier after a CTA barrier.
// PTX ISA, "fence.mbarrier_init": only .release.cluster exists.
PLAIT_DEVICE void mbarrier_init_before_use() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

}  // namespace plait::ptx
