// acc (+)= a b over one k block of 64: operands widened to float, then a register-blocked loop.
//
// Each element is one chain of additions, k ascending over all blocks, whatever the tile: results are the same bits for
// every tile shape.
#pragma once
#include "accumulator.h"
#include "bulk_copy.h"
#include "number.h"

namespace plait {

inline constexpr i64 kMmaBlockK = 64;
inline constexpr i64 kMmaRows = 4;                        // rows of a register block
inline constexpr u32 kScratchA = 1000, kScratchB = 1001;  // engine register slots, far from the accumulators'

#if defined(__AVX__)
inline constexpr i64 kVectorFloats = 8;
#else
inline constexpr i64 kVectorFloats = 4;
#endif
typedef f32 VectorF32 __attribute__((vector_size(kVectorFloats * 4), aligned(4), may_alias));

// Vectors side by side of kMmaRows rows: stays in registers over k.
template <i64 N, i64 Vectors>
static inline void mma_block(f32* __restrict acc, const f32* __restrict a, const f32* __restrict b) {
#if defined(__clang__)
#pragma clang fp contract(fast)
#endif
    VectorF32 sum[kMmaRows][Vectors];
    for (i64 r = 0; r < kMmaRows; r += 1) {
        for (i64 v = 0; v < Vectors; v += 1)
            sum[r][v] = *reinterpret_cast<const VectorF32*>(acc + r * N + v * kVectorFloats);
    }
    for (i64 k = 0; k < kMmaBlockK; k += 1) {
        VectorF32 right[Vectors];
        for (i64 v = 0; v < Vectors; v += 1)
            right[v] = *reinterpret_cast<const VectorF32*>(b + k * N + v * kVectorFloats);
        for (i64 r = 0; r < kMmaRows; r += 1) {
            const f32 left = a[r * kMmaBlockK + k];
            for (i64 v = 0; v < Vectors; v += 1) sum[r][v] = sum[r][v] + left * right[v];
        }
    }
    for (i64 r = 0; r < kMmaRows; r += 1) {
        for (i64 v = 0; v < Vectors; v += 1) *reinterpret_cast<VectorF32*>(acc + r * N + v * kVectorFloats) = sum[r][v];
    }
}

template <i64 M, i64 N>
void multiply(f32* __restrict acc, const f32* __restrict a, const f32* __restrict b) {
    constexpr i64 wide = 2 * kVectorFloats;
    for (i64 c = 0; c < N / wide * wide; c += wide) {
        for (i64 r = 0; r < M; r += kMmaRows) mma_block<N, 2>(acc + r * N + c, a + r * kMmaBlockK, b + c);
    }
    if constexpr (N % wide != 0) {
        for (i64 r = 0; r < M; r += kMmaRows)
            mma_block<N, 1>(acc + r * N + N / wide * wide, a + r * kMmaBlockK, b + N / wide * wide);
    }
}

// b: TransposeB 0: [N][64], k innermost; 1: boxes of [64 k][64 columns] side by side. To [64 k][N].
template <i64 N, i64 TransposeB, class T>
void widen_b(f32* __restrict to, const T* __restrict b) {
    for (i64 k = 0; k < kMmaBlockK; k += 1) {
        if constexpr (TransposeB != 0) {
            for (i64 box = 0; box < N; box += kBoxColumns) {
                const T* row = b + box * kMmaBlockK + k * kBoxColumns;
                const i64 columns = N - box < kBoxColumns ? N - box : kBoxColumns;
                for (i64 c = 0; c < columns; c += 1) to[k * N + box + c] = to_f32(row[c]);
            }
        } else {
            for (i64 c = 0; c < N; c += 1) to[k * N + c] = to_f32(b[c * kMmaBlockK + k]);
        }
    }
}

template <i64 M, i64 N>
void mma_begin(Agent& ag, Acc<M, N>& acc) {
    ag.engine->mma_begin(ag.handle, acc.values(ag));
}

// a: TransposeA 0: [rows][64], k innermost; 1: boxes of [64 k][64 rows] side by side. To [M][64].
template <i64 M, i64 TransposeA, class T>
void widen_a(f32* __restrict to, const T* __restrict a) {
    for (i64 r = 0; r < M; r += 1) {
        for (i64 k = 0; k < kMmaBlockK; k += 1) {
            const i64 at = TransposeA != 0 ? r / kBoxColumns * kBoxColumns * kMmaBlockK + k * kBoxColumns + r % kBoxColumns
                                           : r * kMmaBlockK + k;
            to[r * kMmaBlockK + k] = to_f32(a[at]);
        }
    }
}

// sum (+)= a times one box of b: declared to the engine, then computed.
template <i64 M, i64 N, i64 TransposeB, class T, i64 BBytes>
void multiply_box(Agent& ag, f32* sum, const f32* wide_a, const Bytes<BBytes>& b, bool accumulate) {
    constexpr i64 row_bytes = kMmaBlockK * sizeof(T);
    constexpr i64 b_columns = TransposeB != 0 ? (N + kBoxColumns - 1) / kBoxColumns * kBoxColumns : N;
    static_assert(b_columns * row_bytes <= BBytes, "an operand is smaller than the operation");
    ag.engine->mma_read(ag.handle, b.data, b_columns * row_bytes, 1, b_columns * row_bytes);
    ag.engine->mma_write(ag.handle, sum);
    f32* wide_b = static_cast<f32*>(ag.engine->registers(ag.handle, N * kMmaBlockK * sizeof(f32), kScratchB));
    widen_b<N, TransposeB>(wide_b, reinterpret_cast<const T*>(b.data));
    if (!accumulate) {
        for (i64 i = 0; i < M * N; i += 1) sum[i] = 0.0f;
    }
    multiply<M, N>(sum, wide_a, wide_b);
}

// Boxes: blocks of 64 of k, each in the slot after the one before.
template <i64 N, i64 TransposeB, class T, i64 Boxes = 1, i64 TransposeA = 0, i64 M, i64 ABytes, i64 BBytes>
void mma_issue(Agent& ag, Acc<M, N>& acc, const Bytes<ABytes>& a, i64 a_rows, const Bytes<BBytes>& b, bool accumulate) {
    static_assert(sizeof(T) == 2, "k blocks are 64 elements of 16 bits");
    constexpr i64 row_bytes = kMmaBlockK * sizeof(T);
    static_assert(M * row_bytes <= ABytes, "an operand is smaller than the operation");
    f32* sum = acc.values(ag);
    f32* wide_a = static_cast<f32*>(ag.engine->registers(ag.handle, M * kMmaBlockK * sizeof(f32), kScratchA));
    for (i64 box = 0; box < Boxes; box += 1) {
        const u8* from = (&a)[box].data + a_rows * row_bytes;
        ag.engine->mma_read(ag.handle, from, M * row_bytes, 1, M * row_bytes);
        widen_a<M, TransposeA>(wide_a, reinterpret_cast<const T*>(from));
        multiply_box<M, N, TransposeB, T>(ag, sum, wide_a, (&b)[box], box > 0 || accumulate);
    }
}

static inline void mma_commit(Agent& ag) { ag.engine->mma_commit(ag.handle); }

// Accumulators and operands that are safe from here on, whatever else is complete.
template <int Pending, class... Values>
void mma_wait(Agent& ag, Values&... values) {
    const void* const named[] = {values.values()...};
    ag.engine->mma_wait(ag.handle, Pending, named, sizeof...(Values));
}

}  // namespace plait
