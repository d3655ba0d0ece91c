// One f32 a row of a warpgroup's tile.
#pragma once
#include "accumulator.h"

namespace plait {

inline constexpr f32 kLowest = -__builtin_huge_valf();

template <i64 M>
struct Row {
    Row(Agent&, f32 start) {
        for (i64 r = 0; r < M; r += 1) value[r] = start;
    }
    f32 value[M];
};

// On sm90 what each thread has of a row's sum. Here there is one thread a row: the sum itself.
template <i64 M>
struct RowPart {
    explicit RowPart(Agent&) {
        for (i64 r = 0; r < M; r += 1) value[r] = 0.0f;
    }
    f32 value[M];
};

template <i64 M>
void finish_rows(Agent&, Row<M>& sum, const RowPart<M>& part) {
    for (i64 r = 0; r < M; r += 1) sum.value[r] = part.value[r];
}

}  // namespace plait
