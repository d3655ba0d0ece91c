// Bulk copies. Boxes lie in shared memory row after row, without the swizzle that sm90 needs against bank conflicts.
#pragma once
#include "pipeline.h"

namespace plait {

// Shared memory without a type.
template <i64 Count>
struct Bytes {
    u8 data[Count];
};

inline constexpr i64 kBoxColumns = 64;
inline constexpr i64 kBoxRowBytes = 128;

static inline u64 clip(i64 start, u64 extent, u64 box) {
    if (start < 0 || static_cast<u64>(start) >= extent) return 0;
    const u64 left = extent - static_cast<u64>(start);
    return left < box ? left : box;
}

// The part of the map's box at (x, y, z) that lies inside the tensor. A start below 0 is legal on sm90 and no role body
// has one: declared as an access to nowhere, so that the engine reports it.
static inline BulkCopy clipped_box(Agent& ag, const TensorMap& map, i64 x, i64 y, i64 z, u8*& memory) {
    const HostTensorMap& t = *reinterpret_cast<const HostTensorMap*>(&map);
    if (x < 0 || y < 0 || z < 0) declare_access(ag, Access::Read, nullptr, 1);
    const u64 columns = clip(x, t.extent[0], t.box[0]), planes = clip(z, t.extent[2], t.box[2]);
    const u64 rows = columns != 0 && planes != 0 ? clip(y, t.extent[1], t.box[1]) : 0;
    const u64 bytes = columns * t.element_bytes, pitch = static_cast<u64>(t.box[0]) * t.element_bytes;
    memory = t.base;
    if (rows != 0)
        memory += static_cast<u64>(x) * t.element_bytes + static_cast<u64>(y) * t.stride_bytes[0] +
                  static_cast<u64>(z) * t.stride_bytes[1];
    return BulkCopy{nullptr, nullptr, pitch, t.stride_bytes[0], bytes, rows, pitch, t.box[1]};
}

static inline void load_box_at(Agent& ag, u8* dst, const TensorMap& map, i64 x, i64 y, i64 z, Barrier& bar) {
    u8* memory;
    BulkCopy copy = clipped_box(ag, map, x, y, z, memory);
    copy.destination = dst;
    copy.source = memory;
    ag.engine->bulk_load(ag.handle, ag.elected, &copy, &bar);
}

template <i64 Rows, i64 Cols, class T, i64 Count>
void load_box(Agent& ag, Bytes<Count>& dst, const TensorMap& map, i64 x, i64 y, i64 z, Barrier& bar) {
    static_assert(Cols <= kBoxColumns && Rows * Cols * static_cast<i64>(sizeof(T)) <= Count,
                  "the slot is smaller than its box");
    load_box_at(ag, dst.data, map, x, y, z, bar);
}

// Rows x Cols as ceil(Cols / 64) boxes side by side.
template <i64 Rows, i64 Cols, class T, i64 Count>
void load_boxes(Agent& ag, Bytes<Count>& dst, const TensorMap& map, i64 x, i64 y, i64 z, Barrier& bar) {
    constexpr i64 boxes = (Cols + kBoxColumns - 1) / kBoxColumns,
                  box_bytes = Rows * kBoxColumns * static_cast<i64>(sizeof(T));
    static_assert(boxes * box_bytes <= Count, "the slot is smaller than its boxes");
    for (i64 i = 0; i < boxes; i += 1) load_box_at(ag, dst.data + i * box_bytes, map, x + i * kBoxColumns, y, z, bar);
}

// The same of the `Ctas` CTAs of a cluster together: this one loads its share of the rows of each box, for all of them.
template <i64 Ctas, i64 Rows, i64 Cols, class T, i64 Count>
void load_multicast(Agent& ag, Bytes<Count>& dst, const TensorMap& map, i64 x, i64 y, i64 z, Barrier& bar) {
    constexpr i64 boxes = (Cols + kBoxColumns - 1) / kBoxColumns, row_bytes = kBoxColumns * static_cast<i64>(sizeof(T)),
                  share = Rows / Ctas;
    static_assert(boxes * Rows * row_bytes <= Count, "the slot is smaller than its boxes");
    static_assert(Rows % (8 * Ctas) == 0, "a share would cut an atom of the swizzle");
    const i64 first = ag.cta % Ctas * share;
    for (i64 i = 0; i < boxes; i += 1) {
        u8* memory;
        BulkCopy copy = clipped_box(ag, map, x + i * kBoxColumns, y + first, z, memory);
        copy.destination = dst.data + (i * Rows + first) * row_bytes;
        copy.source = memory;
        ag.engine->bulk_multicast(ag.handle, ag.elected, &copy, &bar, (1u << Ctas) - 1);
    }
}

template <i64 Rows, i64 Cols, class T, i64 Count>
void store_box(Agent& ag, const TensorMap& map, const Bytes<Count>& src, i64 x, i64 y, i64 z) {
    static_assert(Cols * static_cast<i64>(sizeof(T)) <= kBoxRowBytes && Rows * Cols * static_cast<i64>(sizeof(T)) <= Count,
                  "the slot is smaller than its box");
    u8* memory;
    const BulkCopy box = clipped_box(ag, map, x, y, z, memory);
    const BulkCopy copy{memory,        src.data, box.source_pitch, box.destination_pitch,
                        box.row_bytes, box.rows, box.row_bytes,    box.rows};
    ag.engine->bulk_store(ag.handle, ag.elected, &copy);
}

template <i64 Count>
void load_bytes(Agent& ag, Bytes<Count>& dst, const u8* src, i64 bytes, Barrier& bar) {
    const u64 n = static_cast<u64>(bytes);
    const BulkCopy copy{dst.data, src, n, n, n, 1, n, 1};
    ag.engine->bulk_load(ag.handle, ag.elected, &copy, &bar);
}
// Not by an agent whose wait gave up: a peer that has not entered may still read the bank that it would write.
template <i64 Count>
void put_bytes(Agent& ag, u8* dst, const Bytes<Count>& src, i64 bytes) {
    if (ag.stopped) return;
    const u64 n = static_cast<u64>(bytes);
    const BulkCopy copy{dst, src.data, n, n, n, 1, n, 1};
    ag.engine->bulk_store(ag.handle, ag.elected, &copy);
}

static inline void bulk_commit(Agent& ag) { ag.engine->bulk_commit(ag.handle, ag.elected); }
template <int Pending>
void bulk_wait_read(Agent& ag) {
    ag.engine->bulk_wait(ag.handle, ag.elected, Pending, 1);
}
template <int Pending>
void bulk_wait(Agent& ag) {
    ag.engine->bulk_wait(ag.handle, ag.elected, Pending, 0);
}

static inline void fence_async_shared(Agent& ag) { ag.engine->fence_proxy_async(ag.handle, Lane::Members); }
static inline void fence_async_global(Agent& ag) { ag.engine->fence_proxy_async(ag.handle, Lane::Members); }

}  // namespace plait
