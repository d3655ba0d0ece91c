// Loads, stores and atomics with an order and a scope (PTX ISA, "Memory Consistency Model", "ld", "st", "atom", "red").
// 64-bit words in global memory: own, a peer's, or pinned host memory.
#pragma once
#include "../../abi/flag.h"
#include "space.cuh"

namespace plait::ptx {

#define PLAIT_LOAD_AS(name, modifiers)                                                                         \
    PLAIT_DEVICE u64 name(const u64* address) {                                                                \
        u64 value;                                                                                             \
        asm volatile("ld." modifiers ".global.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(address)) : "memory"); \
        return value;                                                                                          \
    }
PLAIT_LOAD_AS(load_acquire_cta, "acquire.cta")
PLAIT_LOAD_AS(load_acquire_gpu, "acquire.gpu")
PLAIT_LOAD_AS(load_acquire_sys, "acquire.sys")
PLAIT_LOAD_AS(load_relaxed_gpu, "relaxed.gpu")
PLAIT_LOAD_AS(load_relaxed_sys, "relaxed.sys")
#undef PLAIT_LOAD_AS

#define PLAIT_STORE_AS(name, instruction)                                                                      \
    PLAIT_DEVICE void name(u64* address, u64 value) {                                                          \
        asm volatile(instruction " [%0], %1;" ::"l"(__cvta_generic_to_global(address)), "l"(value) : "memory"); \
    }
PLAIT_STORE_AS(store_release_cta, "st.release.cta.global.u64")
PLAIT_STORE_AS(store_release_gpu, "st.release.gpu.global.u64")
PLAIT_STORE_AS(store_release_sys, "st.release.sys.global.u64")
PLAIT_STORE_AS(store_relaxed_gpu, "st.relaxed.gpu.global.u64")
PLAIT_STORE_AS(store_relaxed_sys, "st.relaxed.sys.global.u64")
PLAIT_STORE_AS(add_relaxed_gpu, "red.relaxed.gpu.global.add.u64")
PLAIT_STORE_AS(add_release_cta, "red.release.cta.global.add.u64")
PLAIT_STORE_AS(add_release_gpu, "red.release.gpu.global.add.u64")
PLAIT_STORE_AS(add_release_sys, "red.release.sys.global.add.u64")
#undef PLAIT_STORE_AS

#define PLAIT_FETCH_ADD_AS(name, modifiers)                                                                    \
    PLAIT_DEVICE u64 name(u64* address, u64 value) {                                                           \
        u64 old;                                                                                               \
        asm volatile("atom." modifiers ".global.add.u64 %0, [%1], %2;"                                         \
                     : "=l"(old)                                                                               \
                     : "l"(__cvta_generic_to_global(address)), "l"(value)                                      \
                     : "memory");                                                                              \
        return old;                                                                                            \
    }
PLAIT_FETCH_ADD_AS(fetch_add_relaxed_gpu, "relaxed.gpu")
PLAIT_FETCH_ADD_AS(fetch_add_acq_rel_gpu, "acq_rel.gpu")
#undef PLAIT_FETCH_ADD_AS

// Two neighbouring words of shared memory, 8-byte aligned.
PLAIT_DEVICE void store_shared_pair(u32 address, f32 low, f32 high) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(low), "f"(high) : "memory");
}

// 16 bytes of ones.
PLAIT_DEVICE void store_ones(u8* address) {
    asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(__cvta_generic_to_global(address)), "r"(0xffffffffu) : "memory");
}

// True for the one caller that found 0.
PLAIT_DEVICE bool claim(u64* address) {
    u64 old;
    asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], 0, 1;" : "=l"(old) : "l"(__cvta_generic_to_global(address)) : "memory");
    return old == 0;
}

PLAIT_DEVICE u64 load_acquire(const u64* address, Scope scope) {
    switch (scope) {
        case Scope::Cta: return load_acquire_cta(address);
        case Scope::Gpu: return load_acquire_gpu(address);
        case Scope::System: break;
    }
    return load_acquire_sys(address);
}

PLAIT_DEVICE void store_release(u64* address, u64 value, Scope scope) {
    switch (scope) {
        case Scope::Cta: return store_release_cta(address, value);
        case Scope::Gpu: return store_release_gpu(address, value);
        case Scope::System: break;
    }
    store_release_sys(address, value);
}

PLAIT_DEVICE void add_release(u64* address, u64 value, Scope scope) {
    switch (scope) {
        case Scope::Cta: return add_release_cta(address, value);
        case Scope::Gpu: return add_release_gpu(address, value);
        case Scope::System: break;
    }
    add_release_sys(address, value);
}

}  // namespace plait::ptx
