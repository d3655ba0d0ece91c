// The gather of rows named by a list: one warpgroup that copies rows by index and loads the weights beside them.
//
// There is no warp left for a loader, so tiles are not fetched from a counter, which one thread would have to tell the
// others: CTA c has tiles c, c + ctas, ... Copies of a block are announced `lag` blocks later, over the border of a tile as
// well: a thread never waits for what it has just asked for.
#include "compiler/passes/grouped/programs.h"
#include "compiler/passes/place_roles.h"

namespace plait::grouped {
namespace {

void announce(Block& b, const char* pending) {
    b.add(Op::GatherWait, {pending});
    b.before_signals("a_gathered");
    b.signal(Op::BarrierArrive, {"a_full[announced.slot]"}, "a_gathered");
    b.add(Op::Advance, {"announced"});
}

}  // namespace

void lower_gather(const Choices& c, Plan* plan) {
    const GroupedPattern& p = c.pattern;
    ProgramDef* program = find_program(plan, "compute_gather");
    Block b(*plan);
    b.add(Op::Pipe, {"ab", "stages"});
    b.add(Op::Pipe, {"announced", "stages"});
    b.add(Op::Pipe, {"ring", "2"});
    b.add(Op::Var, {"t", "cta"});
    b.add(Op::Var, {"ahead", "0"});
    begin_scan(b, c);
    b.loop([&](Block& tile) {
        find_tile(tile, c);
        tile.wait(Op::BarrierWait, {"tile_empty[ring.slot]", "ring.phase ^ 1"}, "tile_free");
        tile.add(Op::RingPut, {"tile_row[ring.slot]", "row"});
        tile.add(Op::RingPut, {"tile_rows[ring.slot]", "rows"});
        tile.add(Op::RingPut, {"tile_col[ring.slot]", "col"});
        tile.signal(Op::BarrierArrive, {"tile_full[ring.slot]"}, "tile");
        tile.add(Op::Advance, {"ring"});
        tile.add(Op::BreakIf, {"rows == 0"});
        tile.add(Op::Trace, {"load", "t"});
        const std::string tokens = p.second.empty() ? "tokens" : "tokens + second_tokens";
        tile.add(Op::GatherIndex, {"from", "tile_m", p.x, p.rows, "row", "rows", "0", "0", tokens, p.second,
                                   p.second.empty() ? "" : "tokens"});
        tile.for_each("k", "0", "k_blocks", "1", [&](Block& block) {
            block.wait(Op::BarrierWait, {"ab_empty[ab.slot]", "ab.phase ^ 1"}, "ab_free");
            block.add(Op::GatherRows, {"tile_m", "64", p.dtype, "a_stage[ab.slot]", "from", "k * tile_k"});
            block.add(Op::BarrierExpect, {"b_full[ab.slot]", std::to_string(c.b_stage_bytes)});
            load_weights(block, c, "b_full[ab.slot]", "b_loaded");
            block.add(Op::Advance, {"ab"});
            block.when("ahead == lag", [&](Block& behind) { announce(behind, "lag"); });
            block.when("ahead < lag", [&](Block& fill) { fill.add(Op::Assign, {"ahead", "ahead + 1"}); });
        });
        tile.add(Op::Assign, {"t", "t + ctas"});
    });
    b.for_each("i", "0", "ahead", "1", [&](Block& rest) { announce(rest, "0"); });
    b.add(Op::Trace, {"idle", "0"});
    program->body = b.take();
}

}  // namespace plait::grouped
