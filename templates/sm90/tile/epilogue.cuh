// From the accumulator to boxes of shared memory that TMA stores: 64 x 64 elements of 16 bits, 128B swizzle.
#pragma once
#include "../ptx/convert.cuh"
#include "../ptx/stmatrix.cuh"
#include "../sync/bulk_copy.cuh"
#include "accumulator.cuh"

namespace plait {

// Block and Column are constants here: accumulators are statically indexed.
template <class T, i64 Block, i64 Column, i64 M, i64 N>
PLAIT_DEVICE void stage_box_at(Agent& ag, u32 box, const Acc<M, N>& acc) {
    // Lanes 0-7 and 8-15 address rows 0-7 and 8-15 of eight columns, lanes 16-31 the same rows of the next eight.
    const u32 row = ag.warp * 16 + ag.lane % 16;
    const u32 row_address = box + row * 128;
    const u32 chunk = ag.lane / 16;
#pragma unroll
    for (u32 j = 0; j < 4; j += 1) {
        const f32* v = &acc.value[Block][Column / 2 + j * 8];
        ptx::stmatrix_x4(row_address + (((2 * j + chunk) ^ (row % 8)) * 16), ptx::pack<T>(v[0], v[1]), ptx::pack<T>(v[2], v[3]),
                         ptx::pack<T>(v[4], v[5]), ptx::pack<T>(v[6], v[7]));
    }
}

// Those of the 64-row block `Block`.
template <class T, i64 Block, i64 M, i64 N>
PLAIT_DEVICE void stage_box_of(Agent& ag, u32 box, const Acc<M, N>& acc, i64 column) {
    if (column == 0) stage_box_at<T, Block, 0>(ag, box, acc);
    if constexpr (N >= 128) {
        if (column == 64) stage_box_at<T, Block, 64>(ag, box, acc);
    }
    if constexpr (N >= 192) {
        if (column == 128) stage_box_at<T, Block, 128>(ag, box, acc);
    }
    if constexpr (N >= 256) {
        if (column == 192) stage_box_at<T, Block, 192>(ag, box, acc);
    }
    if constexpr (N % 64 != 0) {
        if (column == N - 64) stage_box_at<T, Block, N - 64>(ag, box, acc);
    }
}

// Columns [column, +64) of rows [64 block, +64). `column` is a multiple of 64, or N - 64 where N is none: the last box
// then overlaps the one before, with the same values. Compared rather than indexed, so that the values stay in
// registers whether or not the caller's loop is unrolled.
template <class T, i64 M, i64 N, i64 Count>
PLAIT_DEVICE void stage_box(Agent& ag, Bytes<Count>& dst, const Acc<M, N>& acc, i64 block, i64 column) {
    static_assert(sizeof(T) == 2 && Count >= 64 * 128, "a box is 64 rows of 128 bytes");
    static_assert(N >= 64 && N % 16 == 0, "stmatrix writes 16 columns at a time");
    static_assert(M <= 192, "one more line below for each 64 rows");
    const u32 box = ptx::shared_address(&dst);
    if (block == 0) stage_box_of<T, 0>(ag, box, acc, column);
    if constexpr (M >= 128) {
        if (block == 1) stage_box_of<T, 1>(ag, box, acc, column);
    }
    if constexpr (M >= 192) {
        if (block == 2) stage_box_of<T, 2>(ag, box, acc, column);
    }
}

}  // namespace plait
