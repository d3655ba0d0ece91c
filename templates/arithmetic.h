// Pure functions of emitted source, shared by both machines: sizes, raster order, nothing that touches memory.
#pragma once
#include "abi/types.h"

// On the GPU every function needs an execution space; nothing on the host.
#if defined(__CUDACC__)
#define PLAIT_PURE __device__ __forceinline__ constexpr
#else
#define PLAIT_PURE constexpr
#endif

namespace plait {

// Templates: CUDA compilers declare global min and max for every pair of like types. A mixed pair then prefers these,
// a pair of i64 the global ones, with the same result, and no call is ambiguous.
template <class A, class B>
PLAIT_PURE i64 min(A a, B b) {
    return static_cast<i64>(b) < static_cast<i64>(a) ? static_cast<i64>(b) : static_cast<i64>(a);
}
template <class A, class B>
PLAIT_PURE i64 max(A a, B b) {
    return static_cast<i64>(a) < static_cast<i64>(b) ? static_cast<i64>(b) : static_cast<i64>(a);
}
PLAIT_PURE i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// Tile u of rows x cols tiles, `group` row tiles at a time; inside a group the rows come first, then the next column.
// 32-bit division: a tile index fits, and a 64-bit one costs some 100 instructions on a GPU.
struct RasterPosition {
    i64 row, col;
};
PLAIT_PURE RasterPosition raster(i64 u, i64 rows, i64 cols, i64 group) {
    const u32 per = static_cast<u32>(group * cols);
    const u32 g = static_cast<u32>(u) / per;
    const u32 w = static_cast<u32>(u) - g * per;
    const i64 first = g * group;
    const u32 size = static_cast<u32>(min(rows - first, group));
    const u32 col = w / size;
    return {first + (w - col * size), col};
}
PLAIT_PURE i64 raster_row(i64 u, i64 rows, i64 cols, i64 group) { return raster(u, rows, cols, group).row; }
PLAIT_PURE i64 raster_col(i64 u, i64 rows, i64 cols, i64 group) { return raster(u, rows, cols, group).col; }

}  // namespace plait
