// The online softmax of one key block: scores in an accumulator, maximum and sum of each row beside it. Each row is
// worked on alone, columns ascending: results are the same bits for every tile height.
#pragma once
#include "row_vector.h"

extern "C" {
float exp2f(float);
float log2f(float);
}

namespace plait {

template <i64 M, i64 N>
f32* touched_values(Agent& ag, Acc<M, N>& acc) {
    f32* x = acc.values(ag);
    ag.engine->touch(ag.handle, x);
    return x;
}

template <i64 M, i64 N>
void acc_fill(Agent& ag, Acc<M, N>& acc, f32 value) {
    f32* x = touched_values(ag, acc);
    for (i64 i = 0; i < M * N; i += 1) x[i] = value;
}

// x(i, j) = -inf where j > i + diagonal or j >= cols.
template <i64 M, i64 N>
void mask_cols(Agent& ag, Acc<M, N>& acc, i64 diagonal, i64 cols) {
    f32* x = touched_values(ag, acc);
    for (i64 r = 0; r < M; r += 1) {
        const i64 first = max(0, min(r + diagonal + 1, cols));
        for (i64 c = first; c < N; c += 1) x[r * N + c] = kLowest;
    }
}

// A maximum is replaced only by one that exceeds it by more than `threshold`: exponents stay below 2^threshold, and most
// blocks rescale nothing. Decided a row at a time, so that the tile's shape changes no bit.
template <i64 M, i64 N>
void row_rescale(Agent& ag, Row<M>& factor, Row<M>& maximum, Acc<M, N>& acc, f32 scale, f32 threshold) {
    const f32* x = touched_values(ag, acc);
    for (i64 r = 0; r < M; r += 1) {
        f32 largest = x[r * N];
        for (i64 c = 1; c < N; c += 1) largest = x[r * N + c] > largest ? x[r * N + c] : largest;
        const f32 old = maximum.value[r], candidate = largest * scale;
        const bool raise = candidate > old + threshold;
        maximum.value[r] = raise ? candidate : old;
        factor.value[r] = raise ? exp2f(old - candidate) : 1.0f;
    }
}

// x = exp2(x scale - maximum). Rows that have no key yet have maximum -inf: their elements are -inf, and become 0.
template <i64 M, i64 N>
void exp2_rows(Agent& ag, Acc<M, N>& acc, f32 scale, const Row<M>& maximum) {
    f32* x = touched_values(ag, acc);
    for (i64 r = 0; r < M; r += 1) {
        const f32 offset = maximum.value[r] == kLowest ? 0.0f : maximum.value[r];
        for (i64 c = 0; c < N; c += 1) x[r * N + c] = exp2f(x[r * N + c] * scale - offset);
    }
}

template <i64 M, i64 N>
void row_sum(Agent& ag, RowPart<M>& part, const Row<M>& factor, Acc<M, N>& acc) {
    const f32* x = touched_values(ag, acc);
    for (i64 r = 0; r < M; r += 1) {
        f32 sum = 0.0f;
        for (i64 c = 0; c < N; c += 1) sum += x[r * N + c];
        part.value[r] = part.value[r] * factor.value[r] + sum;
    }
}

template <i64 M, i64 N>
void scale_rows(Agent& ag, Acc<M, N>& acc, const Row<M>& factor) {
    f32* x = touched_values(ag, acc);
    for (i64 r = 0; r < M; r += 1) {
        for (i64 c = 0; c < N; c += 1) x[r * N + c] *= factor.value[r];
    }
}

template <i64 M, i64 N>
void divide_rows(Agent& ag, Acc<M, N>& acc, const Row<M>& sum) {
    f32* x = touched_values(ag, acc);
    for (i64 r = 0; r < M; r += 1) {
        const f32 inverse = sum.value[r] == 0.0f ? 0.0f : 1.0f / sum.value[r];
        for (i64 c = 0; c < N; c += 1) x[r * N + c] *= inverse;
    }
}

inline constexpr f32 kNaturalLog2 = 0.693147180559945309f;

// Natural log-sum-exp of the first `rows` rows; -inf where a row had no key.
template <i64 M>
void store_log_sum_exp(Agent& ag, f32* tensor, const Row<M>& maximum, const Row<M>& sum, i64 index, i64 rows) {
    const i64 count = min(rows, M);
    if (count <= 0) return;
    declare_access(ag, Access::Write, tensor + index, static_cast<u64>(count) * sizeof(f32));
    for (i64 r = 0; r < count; r += 1)
        tensor[index + r] = sum.value[r] == 0.0f ? kLowest : (maximum.value[r] + log2f(sum.value[r])) * kNaturalLog2;
}

}  // namespace plait
