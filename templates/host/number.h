// 16-bit numbers by their bits: no compiler support, no library call, the same rounding (to nearest even) everywhere.
#pragma once
#include "../abi/types.h"

namespace plait {

struct bf16 {
    u16 bits;
};
struct f16 {
    u16 bits;
};

static inline u32 bits_of(f32 x) { return __builtin_bit_cast(u32, x); }
static inline f32 float_of(u32 bits) { return __builtin_bit_cast(f32, bits); }

static inline f32 to_f32(f32 x) { return x; }
static inline f32 to_f32(bf16 x) { return float_of(static_cast<u32>(x.bits) << 16); }

// The exponent is moved by a multiplication, which also makes normal numbers of subnormal ones.
static inline f32 to_f32(f16 x) {
    const u32 magnitude = static_cast<u32>(x.bits & 0x7FFF) << 13;
    const u32 sign = static_cast<u32>(x.bits & 0x8000) << 16;
    const u32 infinite = (x.bits & 0x7C00) == 0x7C00 ? 0x7F800000u : 0u;
    return float_of(bits_of(float_of(magnitude) * 0x1p112f) | infinite | sign);
}

template <class T>
T from_f32(f32 x);

template <>
inline f32 from_f32<f32>(f32 x) {
    return x;
}

template <>
inline bf16 from_f32<bf16>(f32 x) {
    const u32 u = bits_of(x);
    const u32 rounded = (u + 0x7FFF + ((u >> 16) & 1)) >> 16;
    const u32 nan = (u >> 16) | 0x40;
    return {static_cast<u16>((u & 0x7FFFFFFF) > 0x7F800000u ? nan : rounded)};
}

template <>
inline f16 from_f32<f16>(f32 x) {
    const u32 u = bits_of(x);
    const u32 sign = (u >> 16) & 0x8000;
    const u32 magnitude = u & 0x7FFFFFFF;
    if (magnitude > 0x7F800000u) return {static_cast<u16>(sign | 0x7E00)};
    if (magnitude >= 0x477FF000u) return {static_cast<u16>(sign | 0x7C00)};  // 65520 and above round to infinity
    if (magnitude < 0x38800000u) {
        // Below 2^-14 the result is a multiple of 2^-24: adding 0.5 makes the float's own rounding do it.
        const u32 subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
        return {static_cast<u16>(sign | subnormal)};
    }
    const u32 rebased = magnitude - (112u << 23);
    return {static_cast<u16>(sign | ((rebased + 0xFFF + ((rebased >> 13) & 1)) >> 13))};
}

template <class T>
f32 round_to(f32 x) {
    return to_f32(from_f32<T>(x));
}

}  // namespace plait
