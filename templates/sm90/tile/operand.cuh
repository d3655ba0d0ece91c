// Register operands of matrix operations: an accumulator, rounded to 16 bits. Its fragment is the accumulator's
// (PTX ISA, "wgmma.mma_async", register fragment A of m64k16: two pairs of columns of rows g and g + 8).
#pragma once
#include "../ptx/convert.cuh"
#include "mma.cuh"
#include "row_vector.cuh"

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

// Other bits, so that the compiler must have computed the old ones.
template <i64 M, i64 K, class T>
PLAIT_DEVICE void change(Operand<M, K, T>& operand) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 i = 0; i < K / 4; i += 1) asm volatile("not.b32 %0, %0;" : "+r"(operand.value[b][i]));
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

// acc (+)= operand times b, over all columns of the operand. b as in mma_issue, 64 of k a slot, in consecutive slots.
template <i64 N, i64 TransposeB, class T, i64 M, i64 K, i64 BBytes>
PLAIT_DEVICE void mma_issue_operand(Agent&, Acc<M, N>& acc, const Operand<M, K, T>& operand, const Bytes<BBytes>& b, bool accumulate) {
    const u32 b_low = ptx::wgmma_descriptor_low(ptx::shared_address(&b), TransposeB ? kKBlock * kRowBytes : 0);
#pragma unroll
    for (u32 k = 0; k < K / kMmaK; k += 1) {
        const u32 box = k / (kKBlock / kMmaK), step = k % (kKBlock / kMmaK);
        const u32 b_here = b_low + box * (static_cast<u32>(BBytes) >> 4) + step * kStepUnits<TransposeB != 0>;
#pragma unroll
        for (u32 block = 0; block < M / 64; block += 1) {
            WgmmaOperandShape<static_cast<int>(N), static_cast<int>(TransposeB), T>::issue(
                acc.value[block], &operand.value[block][k * 4], ptx::wgmma_descriptor(b_here, kGroupBytes), k > 0 || accumulate);
        }
    }
}

// ptxas moves arithmetic below a later wgmma wait, and softmax then overlaps no product. A branch on the sums, never taken
// since they are not negative, holds in front of it what the sums depend on and what the branch would change; ptxas cannot
// know that it is not taken.
template <i64 M, class... Operands>
PLAIT_DEVICE void settle(Agent&, const RowPart<M>& part, Operands&... operands) {
    f32 least = part.value[0][0];
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 h = 0; h < 2; h += 1) least = fminf(least, part.value[b][h]);
    }
    while (ptx::any_lane(least < 0.0f)) {
        asm volatile("mov.f32 %0, 0f00000000;" : "=f"(least)::"memory");
        (change(operands), ...);
    }
}

}  // namespace plait
