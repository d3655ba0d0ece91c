// Values and rows that lists in memory name. What a list says is checked against what its writer promised: a value outside
// is recorded once and counts as the nearer bound, so that the role runs on inside of its memory and to its end.
#pragma once
#include "../ptx/copy_async.cuh"
#include "bulk_copy.cuh"
#include "flag.cuh"

namespace plait {

// The record says which artifact it was: kernels that do not communicate have no relay that does.
template <class Args>
PLAIT_DEVICE void report_value(Agent& ag, const Args& args, i64 index, i64 value, i64 low, i64 high, i64 site) {
    u64* artifact = &args.launch.state->stall.artifact;
    if (word_peek(ag, &args.launch.state->stall.taken, Scope::Gpu) == 0)
        word_poke(ag, artifact, args.launch.artifact_offset, Scope::Gpu);
    give_up(ag, args, Finding{AbortCause::Value, reinterpret_cast<const u64*>(index), static_cast<u64>(low),
                              static_cast<u64>(value), static_cast<u64>(site), static_cast<u64>(high)});
}

template <class Args>
PLAIT_DEVICE i64 checked_value(Agent& ag, const Args& args, i64 value, i64 index, i64 low, i64 high, i64 site) {
    if (low <= value && value <= high) return value;
    report_value(ag, args, index, value, low, high, site);
    return value < low ? low : high;
}

// Every thread of a group loads the same word: one access a warp.
template <class Args>
PLAIT_DEVICE i64 load_value(Agent& ag, const Args& args, const i32* list, i64 index, i64 low, i64 high, i64 site) {
    i32 value = list[index];
    if (ag.is_group()) value = static_cast<i32>(ptx::broadcast(static_cast<u32>(value)));
    return checked_value(ag, args, value, index, low, high, site);
}

// Rows of 16-bit elements, `columns` of them: row r of first, and from `split` on row r - split of second.
struct RowSource {
    const u8* first;
    i64 columns;
    const u8* second;
    i64 split;

    PLAIT_DEVICE const u8* row(i64 r) const {
        return r < split ? first + r * columns * 2 : second + (r - split) * columns * 2;
    }
};
PLAIT_DEVICE RowSource row_source(const u8* first, i64 columns) { return RowSource{first, columns, first, i64{1} << 62}; }
PLAIT_DEVICE RowSource row_source(const u8* first, i64 columns, const u8* second, i64 split) {
    return RowSource{first, columns, second, split};
}

// Eight threads copy the 128 bytes of a row; a thread has every 16th row, and the same 16 bytes of each.
inline constexpr i64 kRowsAtOnce = 16;

template <i64 Rows>
struct RowGather {
    static_assert(Rows % kRowsAtOnce == 0, "128 threads copy 16 rows at once");
    const u8* row[Rows / kRowsAtOnce] = {};
    i64 columns = 0;
};

// Row i is row base + indices[first + i], in [low, high); rows from count on repeat the last.
template <i64 Rows, class Args>
PLAIT_DEVICE RowGather<Rows> gather_index(Agent& ag, const Args& args, RowSource source, const i32* indices, i64 first, i64 count,
                                          i64 base, i64 low, i64 high, i64 site) {
    RowGather<Rows> gather;
    gather.columns = source.columns;
    const u32 thread = ag.warp * 32 + ag.lane;
    i32 value[Rows / kRowsAtOnce];
#pragma unroll
    for (i64 i = 0; i < Rows / kRowsAtOnce; i += 1) value[i] = indices[first + min(thread / 8 + i * kRowsAtOnce, count - 1)];
#pragma unroll
    for (i64 i = 0; i < Rows / kRowsAtOnce; i += 1) {
        const i64 index = first + min(thread / 8 + i * kRowsAtOnce, count - 1);
        const i64 row = base + checked_value(ag, args, value[i], index, low - base, high - 1 - base, site);
        gather.row[i] = source.row(row) + thread % 8 * 16;
    }
    return gather;
}

// Columns [column, +Cols) of every row into a box with 128B swizzle, zero beyond the last; one group of each thread.
template <i64 Rows, i64 Cols, class T, i64 Count>
PLAIT_DEVICE void gather_rows(Agent& ag, Bytes<Count>& dst, const RowGather<Rows>& gather, i64 column) {
    static_assert(Cols == kBoxColumns && sizeof(T) == 2 && Rows * 128 <= Count, "a box of 128-byte rows");
    const u32 thread = ag.warp * 32 + ag.lane;
    const u32 chunk = thread % 8, row = thread / 8;
    const u32 to = ptx::shared_address(&dst) + row * 128 + ((chunk ^ (row % 8)) * 16);
    const bool whole = gather.columns % Cols == 0;   // a constant: no condition in the loop of a role
#pragma unroll
    for (u32 i = 0; i < Rows / kRowsAtOnce; i += 1) {
        const u8* from = gather.row[i] + column * 2;
        if (whole) {
            ptx::copy_async(to + i * static_cast<u32>(kRowsAtOnce) * 128, from);
        } else {
            const bool inside = column + chunk * 8 < gather.columns;
            ptx::copy_async_filled(to + i * static_cast<u32>(kRowsAtOnce) * 128, inside ? from : gather.row[i], inside ? 16 : 0);
        }
    }
    ptx::copy_async_commit_group();
}

template <int Pending>
PLAIT_DEVICE void gather_wait(Agent&) {
    ptx::copy_async_wait_group<Pending>();
}

// The first `rows` rows of a 64 x 64 box to (row, col) of a matrix of `width` columns, as far as there are columns: eight
// threads a row, 16 bytes each.
template <class T, i64 Count>
PLAIT_DEVICE void store_rows(Agent& ag, T* matrix, const Bytes<Count>& src, i64 row, i64 col, i64 rows, i64 width) {
    static_assert(sizeof(T) == 2 && Count >= 64 * 128, "a box is 64 rows of 128 bytes");
    const u32 thread = ag.warp * 32 + ag.lane;
    const u32 chunk = thread % 8;
    if (col + chunk * 8 >= width) return;
    T* to = matrix + row * width + col + chunk * 8;
#pragma unroll
    for (u32 r = thread / 8; r < 64; r += static_cast<u32>(kRowsAtOnce)) {
        if (r >= rows) return;
        const uint4 value = *reinterpret_cast<const uint4*>(src.data + r * 128 + ((chunk ^ (r % 8)) * 16));
        *reinterpret_cast<uint4*>(to + r * width) = value;
    }
}

}  // namespace plait
