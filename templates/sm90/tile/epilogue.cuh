// From the accumulator to boxes of shared memory that TMA stores: 64 rows of 128 bytes, 128B swizzle.
#pragma once
#include "../ptx/convert.cuh"
#include "../ptx/memory.cuh"
#include "../ptx/stmatrix.cuh"
#include "../sync/bulk_copy.cuh"
#include "accumulator.cuh"

namespace plait {

inline constexpr i64 kBoxRowBytes = 128;

// Sixteen columns of 16-bit elements: v holds their 8 values of this thread, `first` is their first 16-byte chunk.
// Lanes 0-7 and 8-15 address rows 0-7 and 8-15 of eight columns, lanes 16-31 the same rows of the next eight.
template <class T>
PLAIT_DEVICE void stage_halves(Agent& ag, u32 box, u32 first, const f32* v) {
    const u32 row = ag.warp * 16 + ag.lane % 16;
    const u32 chunk = (first + ag.lane / 16) ^ (row % 8);
    ptx::stmatrix_x4(box + row * kBoxRowBytes + chunk * 16, ptx::pack<T>(v[0], v[1]), ptx::pack<T>(v[2], v[3]),
                     ptx::pack<T>(v[4], v[5]), ptx::pack<T>(v[6], v[7]));
}

// The same of 32-bit elements: 16 columns are four chunks, of which a thread holds half a chunk in each of two rows.
PLAIT_DEVICE void stage_words(Agent& ag, u32 box, u32 first, const f32* v) {
#pragma unroll
    for (u32 i = 0; i < 4; i += 1) {
        const u32 row = ag.warp * 16 + ag.lane / 4 + i % 2 * 8;
        const u32 chunk = (first + i / 2 * 2 + ag.lane % 4 / 2) ^ (row % 8);
        ptx::store_shared_pair(box + row * kBoxRowBytes + chunk * 16 + ag.lane % 2 * 8, v[2 * i], v[2 * i + 1]);
    }
}

// Block and Column are constants here: accumulators are statically indexed.
template <class T, i64 Block, i64 Column, i64 M, i64 N>
PLAIT_DEVICE void stage_box_at(Agent& ag, u32 box, const Acc<M, N>& acc) {
    constexpr i64 width = kBoxRowBytes / sizeof(T);
    constexpr i64 columns = N - Column < width ? N - Column : width;
#pragma unroll
    for (i64 c = 0; c < columns; c += 16) {
        const f32* v = &acc.value[Block][(Column + c) / 2];
        const u32 first = static_cast<u32>(c * sizeof(T) / 16);
        if constexpr (sizeof(T) == 4) {
            stage_words(ag, box, first, v);
        } else {
            stage_halves<T>(ag, box, first, v);
        }
    }
}

// One box after the other of the 64-row block `Block`, until the one at `column`. Compared rather than indexed, so that
// the values stay in registers whether or not the caller's loop is unrolled.
template <class T, i64 Block, i64 Column, i64 M, i64 N>
PLAIT_DEVICE void stage_box_of(Agent& ag, u32 box, const Acc<M, N>& acc, i64 column) {
    if constexpr (Column < N) {
        if (column == Column) return stage_box_at<T, Block, Column>(ag, box, acc);
        stage_box_of<T, Block, Column + kBoxRowBytes / static_cast<i64>(sizeof(T))>(ag, box, acc, column);
    }
}

template <class T, i64 M, i64 N, i64 Count>
PLAIT_DEVICE void stage_box(Agent& ag, Bytes<Count>& dst, const Acc<M, N>& acc, i64 block, i64 column) {
    static_assert(Count >= 64 * kBoxRowBytes, "a box is 64 rows of 128 bytes");
    static_assert(N % 16 == 0, "stmatrix writes 16 columns at a time");
    static_assert(M <= 192, "one more line below for each 64 rows");
    const u32 box = ptx::shared_address(&dst);
    if (block == 0) stage_box_of<T, 0, 0>(ag, box, acc, column);
    if constexpr (M >= 128) {
        if (block == 1) stage_box_of<T, 1, 0>(ag, box, acc, column);
    }
    if constexpr (M >= 192) {
        if (block == 2) stage_box_of<T, 2, 0>(ag, box, acc, column);
    }
}

}  // namespace plait
