// One f32 a row of a warpgroup's tile: every thread holds the rows that its accumulator elements stand in.
#pragma once
#include "../ptx/math.cuh"
#include "accumulator.cuh"

namespace plait {

inline constexpr f32 kLowest = __builtin_bit_cast(f32, 0xff800000u);  // -inf; NVRTC has no __builtin_huge_valf

// value[b][h]: row 64 b + 16 warp + lane / 4 + 8 h, the same in the four lanes that share it.
template <i64 M>
struct Row {
    f32 value[M / 64][2];

    PLAIT_DEVICE Row(Agent&, f32 start) {
#pragma unroll
        for (i64 b = 0; b < M / 64; b += 1) value[b][0] = value[b][1] = start;
    }
};

// What this thread's columns have of the sum of each row; finish_rows adds the four lanes up.
template <i64 M>
struct RowPart {
    f32 value[M / 64][2];

    PLAIT_DEVICE explicit RowPart(Agent&) {
#pragma unroll
        for (i64 b = 0; b < M / 64; b += 1) value[b][0] = value[b][1] = 0.0f;
    }
};

template <i64 M>
PLAIT_DEVICE void finish_rows(Agent&, Row<M>& sum, const RowPart<M>& part) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) {
            f32 total = part.value[b][h];
            total = __fadd_rn(total, ptx::from_lane_across(total, 1));
            sum.value[b][h] = __fadd_rn(total, ptx::from_lane_across(total, 2));
        }
    }
}

}  // namespace plait
