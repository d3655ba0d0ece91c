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
        tile.add(Op::FetchTile, {"fetched"});
        tile.add(Op::Assign, {"t", "fetched"});
        find_tile(tile, c);
        tell_tile(tile, "row", "rows", "col");
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
            load_weights(block, c, {"col", "expert"}, "ab_full[ab.slot]", "ab");
            block.add(Op::Advance, {"ab"});
        });
    });
    b.add(Op::Trace, {"idle", "0"});
    program->body = b.take();
}

}  // namespace plait::grouped
