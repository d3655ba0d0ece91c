// Warpgroup matrix multiply (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"). The instruction itself needs
// one operand list per shape: generated into kernel_shapes.h as specialisations of WgmmaShape.
#pragma once
#include "space.cuh"

namespace plait {

// Specialised in kernel_shapes.h: static void issue(f32 (&d)[N / 2], u64 a, u64 b, bool accumulate), m64nNk16.
template <int N, int TransposeB, class T, int TransposeA>
struct WgmmaShape;

// The same with a in registers: issue(d, const u32 (&a)[4] as a pointer, b, accumulate), k = 16.
template <int N, int TransposeB, class T>
struct WgmmaOperandShape;

}  // namespace plait

namespace plait::ptx {

// Registers (accumulators) and shared memory accessed before are ordered before the wgmma that follow.
PLAIT_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
PLAIT_DEVICE void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int Pending>
PLAIT_DEVICE void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Keeps the compiler from moving a use of the accumulator across this point.
PLAIT_DEVICE void pin(f32& value) { asm volatile("" : "+f"(value)::"memory"); }
PLAIT_DEVICE void pin(u32& value) { asm volatile("" : "+r"(value)::"memory"); }

// Matrix descriptor, 128-byte swizzle (PTX ISA, "Matrix Descriptor Format"): address >> 4 in bits 0-13, leading byte
// offset >> 4 in 16-29, stride byte offset >> 4 in 32-45, layout 1 = 128B swizzle in 62-63. Tiles are 1024-byte aligned.
// The upper word is a constant. The lower one takes byte offsets >> 4, as a tile ends below 2^18 like all shared memory;
// made uniform once, it is all that a tile's descriptors are computed from.
PLAIT_DEVICE u32 wgmma_descriptor_low(u32 address, u32 leading_bytes) { return broadcast(((address & 0x3ffff) >> 4) | ((leading_bytes >> 4) << 16)); }

PLAIT_DEVICE u64 wgmma_descriptor(u32 low, u32 stride_bytes) {
    u64 descriptor;
    asm("mov.b64 %0, {%1, %2};" : "=l"(descriptor) : "r"(low), "r"((stride_bytes >> 4) | (1u << 30)));
    return descriptor;
}

}  // namespace plait::ptx
