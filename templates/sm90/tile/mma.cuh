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

// a: TransposeA 0: K-major, [rows][64]; 1: MN-major, boxes of [64 k][64 rows] side by side. b: TransposeB 0: K-major,
// [N][64]; 1: MN-major, boxes of [64 k][64 columns] side by side.
// K-major: the stride offset leads to the next eight rows, the leading one is unused, 16 of k are 32 bytes.
// MN-major: the leading offset leads to the next 64 rows or columns, the stride one to the next eight k, 16 of k are two
// groups. 64 rows are one box either way, so block b of a starts b times 64 x 128 bytes further.
template <i64 N, i64 TransposeB, class T, i64 TransposeA = 0, i64 M, i64 ABytes, i64 BBytes>
PLAIT_DEVICE void mma_issue(Agent&, Acc<M, N>& acc, const Bytes<ABytes>& a, i64 a_rows, const Bytes<BBytes>& b, bool accumulate) {
    static_assert(sizeof(T) == 2, "k blocks are 64 elements of 16 bits");
    static_assert(M * kRowBytes <= ABytes, "a is smaller than the accumulator's rows");
    using Shape = WgmmaShape<static_cast<int>(N), static_cast<int>(TransposeB), T, static_cast<int>(TransposeA)>;
    constexpr u32 box = kKBlock * kRowBytes;
    constexpr u32 a_step = TransposeA ? kMmaK / 8 * kGroupBytes : kMmaK * sizeof(T);
    constexpr u32 b_step = TransposeB ? kMmaK / 8 * kGroupBytes : kMmaK * sizeof(T);
    const u32 a_address = ptx::shared_address(&a) + static_cast<u32>(a_rows) * kRowBytes;
    const u64 a_desc = ptx::wgmma_descriptor(a_address, TransposeA ? box : 0, kGroupBytes);
    const u64 b_desc = ptx::wgmma_descriptor(ptx::shared_address(&b), TransposeB ? box : 0, kGroupBytes);
#pragma unroll
    for (u32 k = 0; k < kKBlock / kMmaK; k += 1) {
#pragma unroll
        for (u32 block = 0; block < M / 64; block += 1) {
            const u64 a_here = a_desc + ((block * 64 * kRowBytes + k * a_step) >> 4);
            Shape::issue(acc.value[block], a_here, b_desc + (k * b_step >> 4), k > 0 || accumulate);
        }
    }
}

PLAIT_DEVICE void mma_commit(Agent&) { ptx::wgmma_commit_group(); }

// With a group in flight the accumulator is not safe to touch yet, and is not pinned: ptxas would see an access between
// the group's issue and its wait, and serialise.
template <int Pending, i64 M, i64 N>
PLAIT_DEVICE void mma_wait(Agent&, Acc<M, N>& acc) {
    ptx::wgmma_wait_group<Pending>();
    if constexpr (Pending == 0) pin(acc);
}

}  // namespace plait
