// From the accumulator to boxes of shared memory that a bulk copy stores.
#pragma once
#include "accumulator.h"
#include "bulk_copy.h"
#include "number.h"

namespace plait {

// Columns [column, +64) of rows [64 block, +64), as T.
template <class T, i64 M, i64 N, i64 Count>
void stage_box(Agent& ag, Bytes<Count>& dst, Acc<M, N>& acc, i64 block, i64 column) {
    static_assert(N >= kBoxColumns && Count >= 64 * kBoxColumns * static_cast<i64>(sizeof(T)), "a box is 64 x 64");
    const f32* x = acc.values(ag);
    ag.engine->touch(ag.handle, x);
    declare_access(ag, Access::Write, dst.data, 64 * kBoxColumns * sizeof(T));
    T* to = reinterpret_cast<T*>(dst.data);
    for (i64 r = 0; r < 64; r += 1) {
        for (i64 c = 0; c < kBoxColumns; c += 1)
            to[r * kBoxColumns + c] = from_f32<T>(x[(block * 64 + r) * N + column + c]);
    }
}

}  // namespace plait
