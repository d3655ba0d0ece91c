// Register operands of matrix operations: an accumulator, rounded to 16 bits, in memory that the engine keeps.
#pragma once
#include "mma.h"
#include "softmax.h"

namespace plait {

template <i64 M, i64 K, class T>
struct Operand {
    static_assert(M % 64 == 0 && K % kMmaBlockK == 0 && sizeof(T) == 2, "k blocks are 64 elements of 16 bits");

    explicit Operand(Agent& ag) : memory_(ag, M * K * sizeof(T)) {}
    Operand(const Operand&) = delete;
    Operand& operator=(const Operand&) = delete;

    T* values() { return static_cast<T*>(memory_.data()); }
    const T* values() const { return static_cast<const T*>(memory_.data()); }

private:
    RegisterSlot memory_;
};

// The engine faults where an operation that reads the operand is in flight.
template <i64 M, i64 K, class T>
void as_operand(Agent& ag, Operand<M, K, T>& operand, Acc<M, K>& acc) {
    const f32* x = acc.values(ag);
    ag.engine->touch(ag.handle, x);
    ag.engine->touch(ag.handle, operand.values());
    T* to = operand.values();
    for (i64 i = 0; i < M * K; i += 1) to[i] = from_f32<T>(x[i]);
}

// row_rescale, exp2_rows, row_sum and as_operand in one; the scores are spent.
template <i64 M, i64 K, class T>
void softmax_operand(Agent& ag, Operand<M, K, T>& operand, Row<M>& factor, Row<M>& maximum, RowPart<M>& part, Acc<M, K>& acc,
                     f32 scale, f32 threshold) {
    row_rescale(ag, factor, maximum, acc, scale, threshold);
    exp2_rows(ag, acc, scale, maximum);
    row_sum(ag, part, factor, acc);
    as_operand(ag, operand, acc);
}

// acc (+)= operand times b, over all columns of the operand: 64 of k a slot, in consecutive slots from b on.
template <i64 N, i64 TransposeB, class T, i64 M, i64 K, i64 BBytes>
void mma_issue_operand(Agent& ag, Acc<M, N>& acc, const Operand<M, K, T>& operand, const Bytes<BBytes>& b, bool accumulate) {
    f32* sum = acc.values(ag);
    ag.engine->mma_operand(ag.handle, operand.values());
    f32* wide_a = static_cast<f32*>(ag.engine->registers(ag.handle, M * kMmaBlockK * sizeof(f32), kScratchA));
    for (i64 box = 0; box < K / kMmaBlockK; box += 1) {
        const T* from = operand.values() + box * kMmaBlockK;
        for (i64 r = 0; r < M; r += 1) {
            for (i64 k = 0; k < kMmaBlockK; k += 1) wide_a[r * kMmaBlockK + k] = to_f32(from[r * K + k]);
        }
        multiply_box<M, N, TransposeB, T>(ag, sum, wide_a, (&b)[box], box > 0 || accumulate);
    }
}

template <i64 M, class... Operands>
void settle(Agent&, const RowPart<M>&, Operands&...) {}

}  // namespace plait
