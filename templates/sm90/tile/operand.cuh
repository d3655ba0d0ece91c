// Register operands of matrix operations: an accumulator, rounded to 16 bits. Its fragment is the accumulator's
// (PTX ISA, "wgmma.mma_async", register fragment A of m64k16: two pairs of columns of rows g and g + 8).
#pragma once
#include "../ptx/convert.cuh"
#include "mma.cuh"

namespace plait {

template <i64 M, i64 K, class T>
struct Operand {
    static_assert(M % 64 == 0 && K % 64 == 0 && sizeof(T) == 2, "k blocks are 64 elements of 16 bits");
    u32 value[M / 64][K / 4];

    PLAIT_DEVICE explicit Operand(Agent&) {}
};

template <i64 M, i64 K, class T>
PLAIT_DEVICE void pin(Operand<M, K, T>& operand) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 i = 0; i < K / 4; i += 1) ptx::pin(operand.value[b][i]);
    }
}

// Pinned, so that the conversions stay in front of the fence that mma_begin makes.
template <i64 M, i64 K, class T>
PLAIT_DEVICE void as_operand(Agent&, Operand<M, K, T>& operand, const Acc<M, K>& acc) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 i = 0; i < K / 4; i += 1) operand.value[b][i] = ptx::pack<T>(acc.value[b][2 * i], acc.value[b][2 * i + 1]);
    }
    pin(operand);
}

// acc (+)= operand[:, 64 Block to 64 Block + 64] b. b as in mma_issue.
template <i64 N, i64 TransposeB, class T, i64 Block, i64 M, i64 K, i64 BBytes>
PLAIT_DEVICE void mma_issue_operand(Agent&, Acc<M, N>& acc, const Operand<M, K, T>& operand, const Bytes<BBytes>& b, bool accumulate) {
    static_assert(64 * Block + 64 <= K, "the operand has fewer columns");
    constexpr u32 b_box = kKBlock * kRowBytes;
    constexpr u32 b_step = TransposeB ? kMmaK / 8 * kGroupBytes : kMmaK * sizeof(T);
    const u64 b_desc = ptx::wgmma_descriptor(ptx::shared_address(&b), TransposeB ? b_box : 0, kGroupBytes);
#pragma unroll
    for (u32 k = 0; k < kKBlock / kMmaK; k += 1) {
#pragma unroll
        for (u32 block = 0; block < M / 64; block += 1) {
            WgmmaOperandShape<static_cast<int>(N), static_cast<int>(TransposeB), T>::issue(
                acc.value[block], &operand.value[block][Block * 16 + k * 4], b_desc + (k * b_step >> 4), k > 0 || accumulate);
        }
    }
}

}  // namespace plait
