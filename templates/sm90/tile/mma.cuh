// acc (+)= a b over one k block of 64, operands in shared memory as TMA leaves them (128B swizzle).
#pragma once
#include "../ptx/wgmma.cuh"
#include "../sync/bulk_copy.cuh"
#include "accumulator.cuh"

namespace plait {

template <i64 M, i64 N>
PLAIT_DEVICE void pin(Acc<M, N>& acc) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 i = 0; i < N / 2; i += 1) ptx::pin(acc.value[b][i]);
    }
}

template <i64 M, i64 N>
PLAIT_DEVICE void mma_begin(Agent&, Acc<M, N>& acc) {
    pin(acc);
    ptx::wgmma_fence();
}

inline constexpr u32 kKBlock = 64;        // columns of a k block: one swizzle row of 16-bit elements
inline constexpr u32 kMmaK = 16;          // of one wgmma
inline constexpr u32 kRowBytes = 128;
inline constexpr u32 kGroupBytes = 1024;  // eight rows, the swizzle's period

// Offset of 16 of k inside a box, in units of a descriptor's address.
template <bool Transpose>
inline constexpr u32 kStepUnits = (Transpose ? kMmaK / 8 * kGroupBytes : kMmaK * 2) >> 4;

// a: TransposeA 0: K-major, [rows][64]; 1: MN-major, boxes of [64 k][64 rows] side by side. b: TransposeB 0: K-major,
// [N][64]; 1: MN-major, boxes of [64 k][64 columns] side by side.
// K-major: the stride offset leads to the next eight rows, the leading one is unused, 16 of k are 32 bytes.
// MN-major: the leading offset leads to the next 64 rows or columns, the stride one to the next eight k, 16 of k are two
// groups. 64 rows are one box either way, so block b of a starts b times 64 x 128 bytes further.
// Boxes: blocks of 64 of k, each in the slot after the one before.
template <i64 N, i64 TransposeB, class T, i64 Boxes = 1, i64 TransposeA = 0, i64 M, i64 ABytes, i64 BBytes>
PLAIT_DEVICE void mma_issue(Agent&, Acc<M, N>& acc, const Bytes<ABytes>& a, i64 a_rows, const Bytes<BBytes>& b, bool accumulate) {
    static_assert(sizeof(T) == 2, "k blocks are 64 elements of 16 bits");
    static_assert(M * kRowBytes <= ABytes, "a is smaller than the accumulator's rows");
    using Shape = WgmmaShape<static_cast<int>(N), static_cast<int>(TransposeB), T, static_cast<int>(TransposeA)>;
    constexpr u32 next_columns = kKBlock * kRowBytes;
    const u32 a_low = ptx::wgmma_descriptor_low(ptx::shared_address(&a) + static_cast<u32>(a_rows) * kRowBytes, TransposeA ? next_columns : 0);
    const u32 b_low = ptx::wgmma_descriptor_low(ptx::shared_address(&b), TransposeB ? next_columns : 0);
#pragma unroll
    for (u32 k = 0; k < Boxes * kKBlock / kMmaK; k += 1) {
        const u32 box = k / (kKBlock / kMmaK), step = k % (kKBlock / kMmaK);
        const u32 b_here = b_low + box * (static_cast<u32>(BBytes) >> 4) + step * kStepUnits<TransposeB != 0>;
#pragma unroll
        for (u32 block = 0; block < M / 64; block += 1) {
            const u32 a_here = a_low + box * (static_cast<u32>(ABytes) >> 4) + step * kStepUnits<TransposeA != 0> + (block * 64 * kRowBytes >> 4);
            Shape::issue(acc.value[block], ptx::wgmma_descriptor(a_here, kGroupBytes), ptx::wgmma_descriptor(b_here, kGroupBytes),
                         k > 0 || accumulate);
        }
    }
}

PLAIT_DEVICE void mma_commit(Agent&) { ptx::wgmma_commit_group(); }

// Pins what it names, no more: touching a value that a group in flight still uses makes ptxas serialise (C7514).
template <int Pending, class... Values>
PLAIT_DEVICE void mma_wait(Agent&, Values&... values) {
    ptx::wgmma_wait_group<Pending>();
    (pin(values), ...);
}

}  // namespace plait
