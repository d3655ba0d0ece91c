// The online softmax of one key block: scores in an accumulator, maximum and sum of each row beside it.
//
// Every rounding is written out (PTX ISA, "fma", "mul", "add": .rn): a product that the compiler fuses in one kernel and
// not in another would make results depend on the schedule.
#pragma once
#include "../ptx/wgmma.cuh"
#include "row_vector.cuh"

namespace plait {

template <i64 M, i64 N>
PLAIT_DEVICE void acc_fill(Agent&, Acc<M, N>& acc, f32 value) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 i = 0; i < N / 2; i += 1) acc.value[b][i] = value;
    }
}

// x(i, j) = -inf where j > i + diagonal or j >= cols. A block without such elements is left by a uniform branch.
template <i64 M, i64 N>
PLAIT_DEVICE void mask_cols(Agent& ag, Acc<M, N>& acc, i64 diagonal, i64 cols) {
    if (diagonal >= N - 1 && cols >= N) return;
    // Inside 32 bits, and far enough outside the block to change nothing.
    const i32 shift = static_cast<i32>(max(min(diagonal, N), -M));
    const i32 last = static_cast<i32>(max(min(cols, N), 0)) - 1;
    const i32 lane_column = static_cast<i32>(ag.lane % 4 * 2);
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) {
            const i32 row = static_cast<i32>(b * 64 + ag.warp * 16 + ag.lane / 4 + h * 8);
            const i32 limit = (row + shift < last ? row + shift : last) - lane_column;
#pragma unroll
            for (i32 i = 0; i < N / 4; i += 1) {
                f32& x = acc.value[b][i / 2 * 4 + h * 2 + i % 2];
                x = i / 2 * 8 + i % 2 > limit ? kLowest : x;
            }
        }
    }
}

// Largest element of row (b, h), in all four lanes of the row. Two chains, since each is as long as the row.
template <i64 M, i64 N>
PLAIT_DEVICE f32 row_maximum(const Acc<M, N>& acc, i64 b, i64 h) {
    f32 even = acc.value[b][h * 2], odd = acc.value[b][h * 2 + 1];
#pragma unroll
    for (i64 j = 1; j < N / 8; j += 1) {
        even = fmaxf(even, acc.value[b][j * 4 + h * 2]);
        odd = fmaxf(odd, acc.value[b][j * 4 + h * 2 + 1]);
    }
    f32 largest = fmaxf(even, odd);
    largest = fmaxf(largest, ptx::from_lane_across(largest, 1));
    return fmaxf(largest, ptx::from_lane_across(largest, 2));
}

// A maximum is replaced only by one that exceeds it by more than `threshold`: exponents stay below 2^threshold, and most
// blocks rescale nothing. Decided a row at a time, so that the tile's shape changes no bit.
template <i64 M, i64 N>
PLAIT_DEVICE void row_rescale(Agent&, Row<M>& factor, Row<M>& maximum, const Acc<M, N>& acc, f32 scale, f32 threshold) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) {
            const f32 old = maximum.value[b][h];
            const f32 candidate = __fmul_rn(row_maximum(acc, b, h), scale);
            const bool raise = candidate > __fadd_rn(old, threshold);
            maximum.value[b][h] = raise ? candidate : old;
            factor.value[b][h] = raise ? ptx::exp2(__fadd_rn(old, -candidate)) : 1.0f;
        }
    }
}

// x = exp2(x scale - maximum): one FFMA and one MUFU an element. Rows that have no key yet have maximum -inf: 0 there.
template <i64 M, i64 N>
PLAIT_DEVICE void exp2_rows(Agent&, Acc<M, N>& acc, f32 scale, const Row<M>& maximum) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
        f32 offset[2];
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) offset[h] = maximum.value[b][h] == kLowest ? 0.0f : -maximum.value[b][h];
#pragma unroll
        for (i64 i = 0; i < N / 2; i += 1)
            acc.value[b][i] = ptx::exp2(__fmaf_rn(acc.value[b][i], scale, offset[i / 2 % 2]));
    }
}

// part = part x factor + the sum of this thread's elements: even columns, odd columns, then both.
template <i64 M, i64 N>
PLAIT_DEVICE void row_sum(Agent&, RowPart<M>& part, const Row<M>& factor, const Acc<M, N>& acc) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) {
            f32 even = acc.value[b][h * 2], odd = acc.value[b][h * 2 + 1];
#pragma unroll
            for (i64 j = 1; j < N / 8; j += 1) {
                even = __fadd_rn(even, acc.value[b][j * 4 + h * 2]);
                odd = __fadd_rn(odd, acc.value[b][j * 4 + h * 2 + 1]);
            }
            part.value[b][h] = __fmaf_rn(part.value[b][h], factor.value[b][h], __fadd_rn(even, odd));
        }
    }
}

template <i64 M, i64 N>
PLAIT_DEVICE void multiply_rows(Acc<M, N>& acc, const f32 (&by)[M / 64][2]) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 i = 0; i < N / 2; i += 1) acc.value[b][i] = __fmul_rn(acc.value[b][i], by[b][i / 2 % 2]);
    }
}

// Whether the maximum of any of the warp's rows was raised.
template <i64 M>
PLAIT_DEVICE bool any_raised(const Row<M>& factor) {
    bool raised = false;
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) raised = raised || factor.value[b][0] != 1.0f || factor.value[b][1] != 1.0f;
    return ptx::any_lane(raised);
}

// The warp's vote skips a multiplication by exactly 1: no bit depends on which rows share a warp.
template <i64 M, i64 N>
PLAIT_DEVICE void scale_rows(Agent&, Acc<M, N>& acc, const Row<M>& factor) {
    if (any_raised(factor)) multiply_rows(acc, factor.value);
}

template <i64 M, i64 N>
PLAIT_DEVICE void divide_rows(Agent&, Acc<M, N>& acc, const Row<M>& sum) {
    f32 inverse[M / 64][2];
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) inverse[b][h] = sum.value[b][h] == 0.0f ? 0.0f : __frcp_rn(sum.value[b][h]);
    }
    multiply_rows(acc, inverse);
}

inline constexpr f32 kNaturalLog2 = 0.693147180559945309f;

// Natural log-sum-exp of the first `rows` rows; -inf where a row had no key: log2(0) is -inf.
template <i64 M>
PLAIT_DEVICE void store_log_sum_exp(Agent& ag, f32* tensor, const Row<M>& maximum, const Row<M>& sum, i64 index, i64 rows) {
    if (ag.lane % 4 != 0) return;
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) {
            const i64 row = b * 64 + ag.warp * 16 + ag.lane / 4 + h * 8;
            if (row < rows)
                tensor[index + row] = __fmul_rn(__fadd_rn(maximum.value[b][h], ptx::log2(sum.value[b][h])), kNaturalLog2);
        }
    }
}

}  // namespace plait
