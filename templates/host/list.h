// Values and rows that lists in memory name. What a list says is checked against what its writer promised: a value
// outside is recorded once and counts as the nearer bound, so that the role runs on inside of its memory and to its
// end.
#pragma once
#include "bulk_copy.h"
#include "flag.h"

namespace plait {

// The record says which artifact it was: kernels that do not communicate have no relay that does.
template <class Args>
void report_value(Agent& ag, const Args& args, i64 index, i64 value, i64 low, i64 high, i64 site) {
    u64* artifact = &args.launch.state->stall.artifact;
    if (word_peek(ag, &args.launch.state->stall.taken, Scope::Gpu) == 0)
        word_poke(ag, artifact, args.launch.artifact_offset, Scope::Gpu);
    give_up(ag, args, Finding{AbortCause::Value, reinterpret_cast<const u64*>(index), static_cast<u64>(low),
                              static_cast<u64>(value), static_cast<u64>(site), static_cast<u64>(high)});
}

template <class Args>
i64 checked_value(Agent& ag, const Args& args, const i32* list, i64 index, i64 low, i64 high, i64 site) {
    declare_access(ag, Access::Read, list + index, sizeof(i32));
    const i64 value = list[index];
    if (low <= value && value <= high) return value;
    report_value(ag, args, index, value, low, high, site);
    return value < low ? low : high;
}

template <class Args>
i64 load_value(Agent& ag, const Args& args, const i32* list, i64 index, i64 low, i64 high, i64 site) {
    return checked_value(ag, args, list, index, low, high, site);
}

// Rows of 16-bit elements, `columns` of them: row r of first, and from `split` on row r - split of second.
struct RowSource {
    const u8* first;
    i64 columns;
    const u8* second;
    i64 split;

    const u8* row(i64 r) const { return r < split ? first + r * columns * 2 : second + (r - split) * columns * 2; }
};
static inline RowSource row_source(const u8* first, i64 columns) {
    return RowSource{first, columns, first, i64{1} << 62};
}
static inline RowSource row_source(const u8* first, i64 columns, const u8* second, i64 split) {
    return RowSource{first, columns, second, split};
}

template <i64 Rows>
struct RowGather {
    const u8* row[Rows] = {};
    i64 columns = 0;
};

// Row i is row base + indices[first + i], in [low, high); rows from count on repeat the last.
template <i64 Rows, class Args>
RowGather<Rows> gather_index(Agent& ag, const Args& args, RowSource source, const i32* indices, i64 first, i64 count,
                             i64 base, i64 low, i64 high, i64 site) {
    RowGather<Rows> gather;
    gather.columns = source.columns;
    for (i64 i = 0; i < Rows; i += 1) {
        const i64 index = first + (i < count ? i : count - 1);
        gather.row[i] = source.row(base + checked_value(ag, args, indices, index, low - base, high - 1 - base, site));
    }
    return gather;
}

// Columns [column, +Cols) of every row into a box, zero beyond the last; one group.
template <i64 Rows, i64 Cols, class T, i64 Count>
void gather_rows(Agent& ag, Bytes<Count>& dst, const RowGather<Rows>& gather, i64 column) {
    static_assert(Cols == kBoxColumns && sizeof(T) == 2 && Rows * Cols * 2 <= Count, "a box of 128-byte rows");
    const i64 columns = gather.columns - column < Cols ? gather.columns - column : Cols;
    for (i64 i = 0; i < Rows; i += 1) {
        ag.engine->gather_row(ag.handle, dst.data + i * Cols * 2, gather.row[i] + column * 2,
                              static_cast<u64>(columns) * 2, Cols * 2);
    }
    ag.engine->gather_commit(ag.handle);
}

template <int Pending>
void gather_wait(Agent& ag) {
    ag.engine->gather_wait(ag.handle, Pending);
}

// The first `rows` rows of a 64 x 64 box to (row, col) of a matrix of `width` columns, as far as there are columns.
template <class T, i64 Count>
void store_rows(Agent& ag, T* matrix, const Bytes<Count>& src, i64 row, i64 col, i64 rows, i64 width) {
    static_assert(64 * kBoxColumns * static_cast<i64>(sizeof(T)) <= Count, "a box is 64 x 64");
    const i64 columns = width - col < kBoxColumns ? width - col : kBoxColumns;
    if (rows <= 0 || columns <= 0) return;
    const T* from = reinterpret_cast<const T*>(src.data);
    const u64 bytes = static_cast<u64>(columns) * sizeof(T);
    ag.engine->access(ag.handle, Lane::Members, Proxy::Generic, Access::Read, from, bytes, static_cast<u64>(rows),
                      kBoxColumns * sizeof(T));
    ag.engine->access(ag.handle, Lane::Members, Proxy::Generic, Access::Write, matrix + row * width + col, bytes,
                      static_cast<u64>(rows), static_cast<u64>(width) * sizeof(T));
    for (i64 r = 0; r < rows; r += 1) {
        for (i64 c = 0; c < columns; c += 1) matrix[(row + r) * width + col + c] = from[r * kBoxColumns + c];
    }
}

}  // namespace plait
