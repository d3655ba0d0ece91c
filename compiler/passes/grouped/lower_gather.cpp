// The gather of rows named by a list: one warpgroup that copies rows by index and loads the weights beside them.
//
// There is no warp left for a loader, so the warpgroup takes tiles as well: its elected thread fetches the number and
// hands it to the others. All of that happens in steps inside the loop over k of the tile before, each shorter than a
// block takes, with the rows of the next tile ready when it begins. Copies of a block are announced `lag` blocks later,
// over the border of a tile as well: a thread never waits for what it has just asked for.
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

// After the elected thread has put the number of the next tile into the ring.
void next_tile(Block& b, const Choices& c, const char* name) {
    b.add(Op::AgentSync);
    b.add(Op::RingGet, {name, "tile_number[numbers.slot]"});
    b.add(Op::Advance, {"numbers"});
    b.add(Op::Assign, {"t", name});
    find_tile(b, c);
}

void next_rows(Block& b, const Choices& c) {
    const GroupedPattern& p = c.pattern;
    const bool two = !p.second.empty();
    b.when("rows > 0", [&](Block& some) {
        some.add(Op::GatherIndex, {"coming", "tile_m", p.x, p.rows, "row", "rows", "0", "0",
                                   two ? "tokens + second_tokens" : "tokens", p.second, two ? "tokens" : ""});
    });
}

// One block of k: the copies of `from`, the weights, and the announcement of what was asked for `lag` blocks ago.
void load_block(Block& b, const Choices& c) {
    b.wait(Op::BarrierWait, {"ab_empty[ab.slot]", "ab.phase ^ 1"}, "ab_free");
    b.add(Op::GatherRows, {"tile_m", "64", c.pattern.dtype, "a_stage[ab.slot]", "from", "k * tile_k"});
    b.add(Op::BarrierExpect, {"b_full[ab.slot]", std::to_string(c.b_stage_bytes)});
    load_weights(b, c, {"this_col", "this_expert"}, "b_full[ab.slot]", "b_loaded");
    b.add(Op::Advance, {"ab"});
    b.when("ahead == lag", [&](Block& behind) { announce(behind, "lag"); });
    b.when("ahead < lag", [&](Block& fill) { fill.add(Op::Assign, {"ahead", "ahead + 1"}); });
}

}  // namespace

void lower_gather(const Choices& c, Plan* plan) {
    ProgramDef* program = find_program(plan, "compute_gather");
    Block b(*plan);
    b.add(Op::Pipe, {"ab", "stages"});
    b.add(Op::Pipe, {"announced", "stages"});
    b.add(Op::Pipe, {"ring", "2"});
    b.add(Op::Pipe, {"numbers", "2"});
    for (const char* name : {"ahead", "number"}) b.add(Op::Var, {name, "0"});
    begin_scan(b, c);
    b.add(Op::GatherDeclare, {"coming", "tile_m"});
    b.add(Op::GatherDeclare, {"from", "tile_m"});
    b.add(Op::FetchTile, {"first_number"});
    b.add(Op::RingPut, {"tile_number[numbers.slot]", "first_number"});
    next_tile(b, c, "first_tile");
    next_rows(b, c);
    b.loop([&](Block& tile) {
        tell_tile(tile, "row", "rows", "col");
        tile.add(Op::BreakIf, {"rows == 0"});
        tile.add(Op::Trace, {"load", "t"});
        tile.let("this_col", "col");
        tile.let("this_expert", "expert");
        tile.add(Op::GatherTake, {"from", "coming"});
        tile.for_each("k", "0", "k_blocks", "1", [&](Block& block) {
            load_block(block, c);
            block.when("k == fetch_at", [&](Block& step) {
                step.add(Op::FetchTile, {"fetched"});
                step.add(Op::Assign, {"number", "fetched"});
            });
            block.when("k == put_at", [&](Block& step) {
                step.add(Op::RingPut, {"tile_number[numbers.slot]", "number"});
            });
            block.when("k == find_at", [&](Block& step) { next_tile(step, c, "found"); });
            block.when("k == index_at", [&](Block& step) { next_rows(step, c); });
        });
    });
    b.for_each("i", "0", "ahead", "1", [&](Block& rest) { announce(rest, "0"); });
    b.add(Op::Trace, {"idle", "0"});
    program->body = b.take();
}

}  // namespace plait::grouped
