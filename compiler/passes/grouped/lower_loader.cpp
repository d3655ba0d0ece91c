// The loader of sorted rows: one thread that takes tiles, tells the consumers where they lie, and loads both operands.
#include "compiler/passes/grouped/programs.h"
#include "compiler/passes/place_roles.h"

namespace plait::grouped {

void lower_loader(const Choices& c, Plan* plan) {
    ProgramDef* program = find_program(plan, "compute_loader");
    Block b(*plan);
    b.add(Op::Pipe, {"ab", "stages"});
    b.add(Op::Pipe, {"ring", "2"});
    begin_scan(b, c);
    b.loop([&](Block& tile) {
        tile.add(Op::FetchTile, {"t"});
        find_tile(tile, c);
        tile.wait(Op::BarrierWait, {"tile_empty[ring.slot]", "ring.phase ^ 1"}, "tile_free");
        tile.add(Op::RingPut, {"tile_row[ring.slot]", "row"});
        tile.add(Op::RingPut, {"tile_rows[ring.slot]", "rows"});
        tile.add(Op::RingPut, {"tile_col[ring.slot]", "col"});
        tile.signal(Op::BarrierArrive, {"tile_full[ring.slot]"}, "tile");
        tile.add(Op::Advance, {"ring"});
        tile.add(Op::BreakIf, {"rows == 0"});
        tile.add(Op::Trace, {"load", "t"});
        tile.note("rows behind the segment's end are loaded with it and never stored");
        tile.for_each("k", "0", "k_blocks", "1", [&](Block& block) {
            block.wait(Op::BarrierWait, {"ab_empty[ab.slot]", "ab.phase ^ 1"}, "ab_free");
            block.add(Op::BarrierExpect, {"ab_full[ab.slot]", std::to_string(c.a_stage_bytes + c.b_stage_bytes)});
            block.signal(Op::LoadBoxes,
                         {"tile_m", "64", c.pattern.dtype, "a_stage[ab.slot]", "x_map[0]", "k * tile_k", "row", "0",
                          "ab_full[ab.slot]"},
                         "ab");
            load_weights(block, c, "ab_full[ab.slot]", "ab");
            block.add(Op::Advance, {"ab"});
        });
    });
    b.add(Op::Trace, {"idle", "0"});
    program->body = b.take();
}

}  // namespace plait::grouped
