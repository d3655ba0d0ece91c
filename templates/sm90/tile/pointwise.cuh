// Functions of one element, and the ordinary loads that feed them.
#pragma once
#include "../ptx/convert.cuh"
#include "../sync/agent.cuh"

namespace plait {

PLAIT_DEVICE f32 add(f32 x, f32 y) { return x + y; }
PLAIT_DEVICE f32 mul(f32 x, f32 y) { return x * y; }
PLAIT_DEVICE f32 relu(f32 x) { return x > 0.0f ? x : 0.0f; }
PLAIT_DEVICE f32 gelu(f32 x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }
PLAIT_DEVICE f32 gelu_tanh(f32 x) {
    return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}
// div.full: 2 ulp over the whole range (PTX ISA, "div"), without the call that the correctly rounded division makes.
PLAIT_DEVICE f32 silu(f32 x) {
    f32 y;
    asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(1.0f + expf(-x)));
    return y;
}

PLAIT_DEVICE f32 silu_mul(f32 x, f32 y) { return silu(x) * y; }

template <class T>
PLAIT_DEVICE f32 to_f32(T value) {
    return ptx::widen(value);
}

template <class T>
PLAIT_DEVICE f32 round_to(f32 x) {
    T narrow;
    narrow.bits = static_cast<u16>(ptx::pack<T>(x, 0.0f));
    return ptx::widen(narrow);
}
template <>
PLAIT_DEVICE f32 round_to<f32>(f32 x) {
    return x;
}

template <class T>
PLAIT_DEVICE f32 load_at(Agent&, const T* pointer, i64 index) {
    return ptx::widen(pointer[index]);
}

// Element c of a row whose length is a multiple of 16 bytes; 0 unless `inside`. Loaded with its neighbour as an aligned
// pair, from the row's start where outside: map() asks for columns 2i and 2i + 1 one after the other, and two loads of
// one address, neither under a condition, become one.
template <class T>
PLAIT_DEVICE f32 load_inside(const T* row, i64 c, bool inside) {
    const T* pair_address = row + (inside ? c & ~i64{1} : 0);
    f32 value;
    if constexpr (sizeof(T) == 2) {
        const u32 pair = *reinterpret_cast<const u32*>(pair_address);
        T narrow;
        narrow.bits = static_cast<u16>((c & 1) != 0 ? pair >> 16 : pair);
        value = ptx::widen(narrow);
    } else {
        const u64 pair = *reinterpret_cast<const u64*>(pair_address);
        value = __uint_as_float(static_cast<u32>((c & 1) != 0 ? pair >> 32 : pair));
    }
    return inside ? value : 0.0f;
}

// Column c of a vector of `cols`; 0 beyond it.
template <class T>
PLAIT_DEVICE f32 col_at(Agent&, const T* vector, i64 c, i64 cols) {
    return load_inside(vector, c, (c & ~i64{1}) < cols);
}
// Element (r, c) of a matrix whose rows lie `pitch` elements apart.
template <class T>
PLAIT_DEVICE f32 cell_at(Agent&, const T* matrix, i64 r, i64 c, i64 rows, i64 cols, i64 pitch) {
    return load_inside(matrix + (r < rows ? r * pitch : 0), c, r < rows && (c & ~i64{1}) < cols);
}

}  // namespace plait
