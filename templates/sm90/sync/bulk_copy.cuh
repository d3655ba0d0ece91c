// Bulk copies between shared and global memory. One thread issues: the thread agent, or the first of a warpgroup.
// Bulk groups belong to that thread, so the waits below are its own; agent_sync hands their effect to the others.
#pragma once
#include "../../abi/kernel_args.h"
#include "../ptx/bulk.cuh"
#include "pipeline.cuh"

namespace plait {

// Shared memory without a type.
template <i64 Count>
struct Bytes {
    u8 data[Count];
};

// 128B swizzle holds 128 bytes a row: 64 elements of 16 bits. A box outside the tensor is filled with 0 and counts in
// full on the barrier (PTX ISA, "cp.async.bulk.tensor", out-of-bound access).
inline constexpr i64 kBoxColumns = 64;

template <i64 Rows, i64 Cols, class T, i64 Count>
PLAIT_DEVICE void load_box(Agent& ag, Bytes<Count>& dst, const TensorMap& map, i64 x, i64 y, i64 z, Barrier& bar) {
    static_assert(sizeof(T) == 2 && Cols <= kBoxColumns && Rows * 128 <= Count, "one box, 128 bytes a row");
    if (!ag.elected()) return;
    ptx::tensor_load_3d(ptx::shared_address(&dst), &map, static_cast<i32>(x), static_cast<i32>(y), static_cast<i32>(z),
                        ptx::shared_address(&bar));
}

// Rows x Cols as ceil(Cols / 64) boxes side by side, each Rows x 64 and 128 * Rows bytes.
template <i64 Rows, i64 Cols, class T, i64 Count>
PLAIT_DEVICE void load_boxes(Agent& ag, Bytes<Count>& dst, const TensorMap& map, i64 x, i64 y, i64 z, Barrier& bar) {
    static_assert(sizeof(T) == 2, "boxes are 64 elements of 16 bits wide");
    constexpr i64 boxes = (Cols + kBoxColumns - 1) / kBoxColumns;
    static_assert(boxes * Rows * 128 <= Count, "the slot is smaller than its boxes");
    if (!ag.elected()) return;
    const u32 to = ptx::shared_address(&dst);
    const u32 full = ptx::shared_address(&bar);
#pragma unroll
    for (i64 i = 0; i < boxes; i += 1) {
        ptx::tensor_load_3d(to + static_cast<u32>(i * Rows * 128), &map, static_cast<i32>(x + i * kBoxColumns),
                            static_cast<i32>(y), static_cast<i32>(z), full);
    }
}

// The same of the `Ctas` CTAs of a cluster together: this one loads its share of the rows of each box, for all of them. Shares
// are whole atoms of the swizzle, 8 rows of 128 bytes.
template <i64 Ctas, i64 Rows, i64 Cols, class T, i64 Count>
PLAIT_DEVICE void load_multicast(Agent& ag, Bytes<Count>& dst, const TensorMap& map, i64 x, i64 y, i64 z, Barrier& bar) {
    static_assert(sizeof(T) == 2, "boxes are 64 elements of 16 bits wide");
    constexpr i64 boxes = (Cols + kBoxColumns - 1) / kBoxColumns, share = Rows / Ctas;
    static_assert(boxes * Rows * 128 <= Count, "the slot is smaller than its boxes");
    static_assert(Rows % (8 * Ctas) == 0, "a share would cut an atom of the swizzle");
    if (!ag.elected()) return;
    const i64 first = ag.cta % Ctas * share;
    const u32 to = ptx::shared_address(&dst) + static_cast<u32>(first * 128);
    const u32 full = ptx::shared_address(&bar);
#pragma unroll
    for (i64 i = 0; i < boxes; i += 1) {
        ptx::tensor_multicast_3d(to + static_cast<u32>(i * Rows * 128), &map, static_cast<i32>(x + i * kBoxColumns),
                                 static_cast<i32>(y + first), static_cast<i32>(z), full, static_cast<u16>((1 << Ctas) - 1));
    }
}

template <i64 Rows, i64 Cols, class T, i64 Count>
PLAIT_DEVICE void store_box(Agent& ag, const TensorMap& map, const Bytes<Count>& src, i64 x, i64 y, i64 z) {
    static_assert(Cols * static_cast<i64>(sizeof(T)) <= 128 && Rows * 128 <= Count, "one box, at most 128 bytes a row");
    if (!ag.elected()) return;
    ptx::tensor_store_3d(&map, ptx::shared_address(&src), static_cast<i32>(x), static_cast<i32>(y), static_cast<i32>(z));
}

template <i64 Count>
PLAIT_DEVICE void load_bytes(Agent& ag, Bytes<Count>& dst, const u8* src, i64 bytes, Barrier& bar) {
    if (ag.elected()) ptx::bulk_load(ptx::shared_address(&dst), src, static_cast<u32>(bytes), ptx::shared_address(&bar));
}

// Not by an agent whose wait gave up: a peer that has not entered may still read the bank that it would write.
template <i64 Count>
PLAIT_DEVICE void put_bytes(Agent& ag, u8* dst, const Bytes<Count>& src, i64 bytes) {
    if (ag.elected() && !ag.stopped) ptx::bulk_store(dst, ptx::shared_address(&src), static_cast<u32>(bytes));
}

PLAIT_DEVICE void bulk_commit(Agent& ag) {
    if (ag.elected()) ptx::bulk_commit_group();
}
template <int Pending>
PLAIT_DEVICE void bulk_wait_read(Agent& ag) {
    if (ag.elected()) ptx::bulk_wait_group_read<Pending>();
}
template <int Pending>
PLAIT_DEVICE void bulk_wait(Agent& ag) {
    if (ag.elected()) ptx::bulk_wait_group<Pending>();
}

PLAIT_DEVICE void fence_async_shared(Agent&) { ptx::generic_shared_before_async(); }
PLAIT_DEVICE void fence_async_global(Agent&) { ptx::generic_global_before_async(); }

}  // namespace plait
