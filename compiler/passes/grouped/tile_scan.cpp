// From the number of a tile to its place: a walk through the ends of the segments.
//
// Experts in ascending order have ceil(rows / tile_m) x col_tiles tiles each, none where they have no rows. `before`
// counts the tiles of the experts before `expert`, whose rows are [first, end).
#include "compiler/passes/grouped/programs.h"

namespace plait::grouped {
namespace {

constexpr const char* kTilesOfExpert = "ceil_div(end - first, tile_m) * col_tiles";

}  // namespace

void begin_scan(Block& b, const Choices& c) {
    for (const char* name : {"t", "expert", "before", "first", "row", "col", "rows"}) b.add(Op::Var, {name, "0"});
    b.note("ends of segments ascend, and the last one is M");
    b.add(Op::LoadValue, {"head", c.pattern.offs, "0", "experts == 1 ? M : 0", "M"});
    b.add(Op::Var, {"end", "head"});
}

void find_tile(Block& b, const Choices& c) {
    b.loop([&](Block& walk) {
        walk.add(Op::BreakIf, {std::string("t - before < ") + kTilesOfExpert + " || expert + 1 >= experts"});
        walk.add(Op::Assign, {"before", std::string("before + ") + kTilesOfExpert});
        walk.add(Op::Assign, {"first", "end"});
        walk.add(Op::Assign, {"expert", "expert + 1"});
        walk.add(Op::LoadValue, {"next_end", c.pattern.offs, "expert", "expert + 1 == experts ? M : first", "M"});
        walk.add(Op::Assign, {"end", "next_end"});
    });
    const std::string place = "(t - before, ceil_div(end - first, tile_m), col_tiles, raster_group)";
    b.add(Op::Assign, {"rows", "0"});
    b.when(std::string("t - before < ") + kTilesOfExpert, [&](Block& left) {
        left.add(Op::Assign, {"row", "first + raster_row" + place + " * tile_m"});
        left.add(Op::Assign, {"col", "raster_col" + place + " * tile_n"});
        left.add(Op::Assign, {"rows", "min(tile_m, end - row)"});
    });
}

void tell_tile(Block& b, const std::string& row, const std::string& rows, const std::string& col) {
    b.wait(Op::BarrierWait, {"tile_empty[ring.slot]", "ring.phase ^ 1"}, "tile_free");
    b.add(Op::RingPut, {"tile_row[ring.slot]", row});
    b.add(Op::RingPut, {"tile_rows[ring.slot]", rows});
    b.add(Op::RingPut, {"tile_col[ring.slot]", col});
    b.signal(Op::BarrierArrive, {"tile_full[ring.slot]"}, "tile");
    b.add(Op::Advance, {"ring"});
}

void load_weights(Block& b, const Choices& c, const WeightsAt& at, const std::string& barrier,
                  const std::string& edge) {
    if (c.pattern.transpose_b) {
        b.signal(
            Op::LoadBoxes,
            {"tile_n", "64", c.pattern.dtype, "b_stage[ab.slot]", "w_map[0]", "k * tile_k", at.col, at.expert, barrier},
            edge);
    } else {
        b.signal(
            Op::LoadBoxes,
            {"64", "tile_n", c.pattern.dtype, "b_stage[ab.slot]", "w_map[0]", at.col, "k * tile_k", at.expert, barrier},
            edge);
    }
}

}  // namespace plait::grouped
