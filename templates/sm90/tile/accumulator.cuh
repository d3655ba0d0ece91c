// The accumulator of one consumer warpgroup: fp32, M x N, in registers, statically indexed and opaque to role bodies.
#pragma once
#include "../sync/agent.cuh"

namespace plait {

// Block b holds rows [64 b, +64). Element 4 j + e of a thread (PTX ISA, "wgmma.mma_async", register fragment D):
// row 16 warp + lane / 4 + 8 (e / 2), column 8 j + 2 (lane % 4) + e % 2.
template <i64 M, i64 N>
struct Acc {
    static_assert(M % 64 == 0 && N % 8 == 0 && N <= 256, "wgmma computes 64 rows by a multiple of 8 columns up to 256");
    static_assert(M / 64 * N / 2 <= 192, "more than 192 accumulator registers a thread spill");
    static constexpr i64 blocks = M / 64;
    f32 value[M / 64][N / 2];
};

// x = f(row, col, x), rows and columns counted from (row, col). A loop over groups of columns, in which the accumulator
// turns by one group a round (it is back in place at the end): unrolled whole, the loads of `f` are hoisted together and
// spill the accumulator, and ptxas takes ten seconds over gelu. A larger group costs fewer moves and more registers.
template <i64 M, i64 N, class Function>
PLAIT_DEVICE void map(Agent& ag, Acc<M, N>& acc, i64 row, i64 col, Function f) {
    static_assert(N % 16 == 0, "columns are worked on in groups of 16 or 32");
    constexpr i64 total = M / 64 * N / 2;
    constexpr i64 columns = total <= 128 && N % 64 == 0 ? 32 : 16;
    constexpr i64 group = columns / 2;
    f32* value = &acc.value[0][0];
#pragma unroll 1
    for (i64 done = 0; done < total; done += group) {
        // Even by construction, so that f(2i) and f(2i + 1) are seen to concern one pair of columns.
        const i64 c = (col & ~i64{1}) + ag.lane % 4 * 2 + done % (N / 2) * 2;
        const i64 r = row + done / (N / 2) * 64 + ag.warp * 16 + ag.lane / 4;
        f32 turned[group];
#pragma unroll
        for (i64 i = 0; i < group; i += 1) turned[i] = f(r + i / 2 % 2 * 8, (c + i / 4 * 8) | i % 2, value[i]);
#pragma unroll
        for (i64 i = 0; i < total - group; i += 1) value[i] = value[i + group];
#pragma unroll
        for (i64 i = 0; i < group; i += 1) value[total - group + i] = turned[i];
    }
}

// acc = f(acc, other). No loads stand in f, so nothing is hoisted: each pair frees a register.
template <i64 M, i64 N, class Function>
PLAIT_DEVICE void join(Agent&, Acc<M, N>& acc, const Acc<M, N>& other, Function f) {
#pragma unroll
    for (i64 b = 0; b < M / 64; b += 1) {
#pragma unroll
        for (i64 i = 0; i < N / 2; i += 1) acc.value[b][i] = f(acc.value[b][i], other.value[b][i]);
    }
}

}  // namespace plait
