// The softmax of one key block straight into a register operand: the steps of softmax.cuh and as_operand, the same bits.
#pragma once
#include "operand.cuh"
#include "softmax.cuh"

namespace plait {

// Weights as T, and of each row the sum of this thread's, added as row_sum does: even columns, odd columns, then both.
template <i64 M, i64 K, class T>
PLAIT_DEVICE void exp2_operand(Operand<M, K, T>& operand, f32 (&sum)[M / 64][2], const Row<M>& maximum, const Acc<M, K>& acc, f32 scale) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
        f32 offset[2], part[2][2];
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) offset[h] = maximum.value[b][h] == kLowest ? 0.0f : -maximum.value[b][h];
#pragma unroll
        for (i64 i = 0; i < K / 4; i += 1) {
            const i64 h = i % 2;
            const f32 even = ptx::exp2(__fmaf_rn(acc.value[b][2 * i], scale, offset[h]));
            const f32 odd = ptx::exp2(__fmaf_rn(acc.value[b][2 * i + 1], scale, offset[h]));
            part[h][0] = i < 2 ? even : __fadd_rn(part[h][0], even);
            part[h][1] = i < 2 ? odd : __fadd_rn(part[h][1], odd);
            operand.value[b][i] = ptx::pack<T>(even, odd);
        }
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) sum[b][h] = __fadd_rn(part[h][0], part[h][1]);
    }
}

// Whether an element of the warp's rows may exceed 2^threshold: all are positive, so that a sum below it vouches for them.
template <i64 M>
PLAIT_DEVICE bool any_doubt(const f32 (&sum)[M / 64][2], const Row<M>& maximum, f32 threshold) {
    // An eighth is more than rounding moves a score whose maximum is below 2^18.
    const f32 bound = exp2f(threshold - 0.125f), largest = 262144.0f;
    bool doubt = false;
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) {
            // Written so that a sum that is no number is in doubt as well, and a row that has no key yet.
            doubt = doubt || !(sum[b][h] <= bound) || !(fabsf(maximum.value[b][h]) < largest);
        }
    }
    return ptx::any_lane(doubt);
}

// The old maximum is tried first. Without doubt no maximum would be raised, and none is looked for. Else the rule is applied
// to the scores, which are still there; only where it raises a maximum are weights computed again, since rows whose first
// block held few keys stay in doubt for good without being raised. Rows of the warp that need nothing get the same values
// again. The branch is also the wall that `settle` makes elsewhere.
template <i64 M, i64 K, class T>
PLAIT_DEVICE void softmax_operand(Agent& ag, Operand<M, K, T>& operand, Row<M>& factor, Row<M>& maximum, RowPart<M>& part, Acc<M, K>& acc,
                                  f32 scale, f32 threshold) {
    f32 sum[M / 64][2];
    factor = Row<M>(ag, 1.0f);
    for (bool raised = false;;) {
        exp2_operand(operand, sum, maximum, acc, scale);
        if (raised || !any_doubt(sum, maximum, threshold)) break;
        row_rescale(ag, factor, maximum, acc, scale, threshold);
        raised = any_raised(factor);
        if (!raised) break;
    }
    pin(operand);
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) part.value[b][h] = __fmaf_rn(part.value[b][h], factor.value[b][h], sum[b][h]);
    }
}

}  // namespace plait
