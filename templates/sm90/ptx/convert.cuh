// 16-bit floats and their conversions (PTX ISA, "cvt"): round to nearest even.
#pragma once
#include "space.cuh"

namespace plait {

struct bf16 {
    u16 bits;
};
struct f16 {
    u16 bits;
};

}  // namespace plait

namespace plait::ptx {

// Two values in one register, `low` in the lower half.
template <class T>
PLAIT_DEVICE u32 pack(f32 low, f32 high);
template <>
PLAIT_DEVICE u32 pack<bf16>(f32 low, f32 high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}
template <>
PLAIT_DEVICE u32 pack<f16>(f32 low, f32 high) {
    u32 packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

PLAIT_DEVICE f32 widen(bf16 value) { return __uint_as_float(static_cast<u32>(value.bits) << 16); }
PLAIT_DEVICE f32 widen(f16 value) {
    f32 wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
}
PLAIT_DEVICE f32 widen(f32 value) { return value; }

}  // namespace plait::ptx
