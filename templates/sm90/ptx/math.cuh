// exp2 and log2 of the special function unit, minima and maxima across lanes (PTX ISA, "ex2", "lg2", "shfl.sync",
// "vote.sync"). All lanes of the warp take part in what crosses lanes.
#pragma once
#include "space.cuh"

namespace plait::ptx {

// One MUFU: 2 ulp, exactly 0 for -inf and 1 for 0. Without .ftz ptxas scales around it for subnormal inputs.
PLAIT_DEVICE f32 exp2(f32 x) {
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

PLAIT_DEVICE f32 log2(f32 x) {
    f32 y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The value of the lane whose number differs in the bits of `bits`.
PLAIT_DEVICE f32 from_lane_across(f32 value, u32 bits) {
    u32 other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(__float_as_uint(value)), "r"(bits));
    return __uint_as_float(other);
}

PLAIT_DEVICE bool any_lane(bool condition) {
    u32 any;
    asm volatile(
        "{\n\t"
        ".reg .pred p, q;\n\t"
        "setp.ne.u32 p, %1, 0;\n\t"
        "vote.sync.any.pred q, p, 0xffffffff;\n\t"
        "selp.u32 %0, 1, 0, q;\n\t"
        "}"
        : "=r"(any)
        : "r"(static_cast<u32>(condition)));
    return any != 0;
}

}  // namespace plait::ptx
