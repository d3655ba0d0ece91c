// From the number of a tile to its place: a walk through the ends of the segments.
//
// Experts in ascending order have ceil(rows / tile_m) x col_tiles tiles each, none where they have no rows. `before` counts
// the tiles of the experts before `expert`, whose rows are [first, end).
#include "compiler/passes/grouped/programs.h"

namespace plait::grouped {
namespace {

constexpr const char* kTilesOfExpert = "ceil_div(end - first, tile_m) * col_tiles";

}  // namespace

void begin_scan(Block& b, const Choices& c) {
    b.add(Op::Var, {"expert", "0"});
    b.add(Op::Var, {"before", "0"});
    b.add(Op::Var, {"first", "0"});
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
    b.let("blocks", "ceil_div(end - first, tile_m)");
    b.let("u", "t - before");
    b.let("left", "u < blocks * col_tiles");
    b.let("row", "left ? first + raster_row(u, blocks, col_tiles, raster_group) * tile_m : M");
    b.let("col", "left ? raster_col(u, blocks, col_tiles, raster_group) * tile_n : 0");
    b.let("rows", "left ? min(tile_m, end - row) : 0");
}

void load_weights(Block& b, const Choices& c, const std::string& barrier, const std::string& edge) {
    if (c.pattern.transpose_b) {
        b.signal(Op::LoadBoxes,
                 {"tile_n", "64", c.pattern.dtype, "b_stage[ab.slot]", "w_map[0]", "k * tile_k", "col", "expert", barrier},
                 edge);
    } else {
        b.signal(Op::LoadBoxes,
                 {"64", "tile_n", c.pattern.dtype, "b_stage[ab.slot]", "w_map[0]", "col", "k * tile_k", "expert", barrier},
                 edge);
    }
}

}  // namespace plait::grouped
