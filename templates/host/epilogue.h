// From the accumulator to boxes of shared memory that a bulk copy stores.
#pragma once
#include "accumulator.h"
#include "bulk_copy.h"
#include "number.h"

namespace plait {

// Rows [64 block, +64) and the columns from `column` on, as T: as many as a box of 128-byte rows holds and acc has.
template <class T, i64 M, i64 N, i64 Count>
void stage_box(Agent& ag, Bytes<Count>& dst, Acc<M, N>& acc, i64 block, i64 column) {
    constexpr i64 width = kBoxRowBytes / static_cast<i64>(sizeof(T));
    static_assert(Count >= 64 * kBoxRowBytes, "a box is 64 rows of 128 bytes");
    const f32* x = acc.values(ag);
    ag.engine->touch(ag.handle, x);
    const i64 columns = min(width, N - column);
    T* to = reinterpret_cast<T*>(dst.data);
    for (i64 r = 0; r < 64; r += 1) {
        if (columns < width || r == 0)
            declare_access(ag, Access::Write, to + r * width, columns < width ? columns * sizeof(T) : 64 * kBoxRowBytes);
        for (i64 c = 0; c < columns; c += 1) to[r * width + c] = from_f32<T>(x[(block * 64 + r) * N + column + c]);
    }
}

}  // namespace plait
