// Asynchronous copies of single threads, global to shared (PTX ISA, "Data Movement and Conversion Instructions: cp.async"):
// performed in the generic proxy. The writes of a thread's groups are visible to that thread after its wait_group, and to
// others only by what it does next.
#pragma once
#include "space.cuh"

namespace plait::ptx {

// 16 bytes, past L1 (.cg).
PLAIT_DEVICE void copy_async(u32 destination, const void* source) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(destination), "l"(__cvta_generic_to_global(source)) : "memory");
}
// The first `bytes` of 16, the rest 0.
PLAIT_DEVICE void copy_async_filled(u32 destination, const void* source, u32 bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination), "l"(__cvta_generic_to_global(source)), "r"(bytes)
                 : "memory");
}

PLAIT_DEVICE void copy_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Pending>
PLAIT_DEVICE void copy_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace plait::ptx
