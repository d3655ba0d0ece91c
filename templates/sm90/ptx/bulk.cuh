// Bulk copies (PTX ISA, "cp.async.bulk", "cp.async.bulk.tensor", "cp.async.bulk.wait_group"): asynchronous, async proxy.
// Loads complete on an mbarrier. Stores belong to the bulk groups of the thread that issued them; that thread waits.
#pragma once
#include "space.cuh"

namespace plait::ptx {

PLAIT_DEVICE void bulk_load(u32 destination, const void* source, u32 bytes, u32 bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
                 "l"(__cvta_generic_to_global(source)), "r"(bytes), "r"(bar)
                 : "memory");
}

PLAIT_DEVICE void bulk_store(void* destination, u32 source, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(destination)),
                 "r"(source), "r"(bytes)
                 : "memory");
}

PLAIT_DEVICE void tensor_load_3d(u32 destination, const void* map, i32 x, i32 y, i32 z, u32 bar) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
            destination),
        "l"(map), "r"(x), "r"(y), "r"(z), "r"(bar)
        : "memory");
}

// Into each CTA of the cluster whose bit is set in `ctas`: the box and the bytes counted arrive at the same offsets of each
// one's shared memory, at times of their own (PTX ISA, "cp.async.bulk.tensor", .multicast::cluster).
PLAIT_DEVICE void tensor_multicast_3d(u32 destination, const void* map, i32 x, i32 y, i32 z, u32 bar, u16 ctas) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(
            destination),
        "l"(map), "r"(x), "r"(y), "r"(z), "r"(bar), "h"(ctas)
        : "memory");
}

PLAIT_DEVICE void tensor_store_3d(const void* map, u32 source, i32 x, i32 y, i32 z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map), "r"(x),
                 "r"(y), "r"(z), "r"(source)
                 : "memory");
}

PLAIT_DEVICE void bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// .read: the sources have been read. Says nothing about the destination.
template <int Pending>
PLAIT_DEVICE void bulk_wait_group_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// Complete: the writes are visible to this thread, so that a release by it covers them.
template <int Pending>
PLAIT_DEVICE void bulk_wait_group() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace plait::ptx
