// One consumer warpgroup of a grouped matmul: multiply, pointwise, store the rows that are the segment's.
#include <fmt/format.h>

#include "compiler/passes/grouped/programs.h"
#include "compiler/passes/place_roles.h"
#include "compiler/passes/pointwise.h"

namespace plait::grouped {
namespace {

constexpr std::int64_t kBoxes = 2;  // output boxes of a warpgroup: one is filled while the other is stored

class Consumer {
public:
    Consumer(const Choices& c, std::int64_t index) : c_(c), index_(index), first_row_(index * c.consumer_rows) {}

    void program(Block& b) {
        b.add(Op::Pipe, {"ab", "stages"});
        b.add(Op::Pipe, {"ring", "2"});
        b.loop([&](Block& tile) {
            tile.wait(Op::BarrierWait, {"tile_full[ring.slot]", "ring.phase"}, "tile");
            tile.add(Op::RingGet, {"row", "tile_row[ring.slot]"});
            tile.add(Op::RingGet, {"rows", "tile_rows[ring.slot]"});
            tile.add(Op::RingGet, {"col", "tile_col[ring.slot]"});
            tile.signal(Op::BarrierArrive, {"tile_empty[ring.slot]"}, "tile_free");
            tile.add(Op::Advance, {"ring"});
            tile.add(Op::BreakIf, {"rows == 0"});
            tile.note("rows of this warpgroup that belong to the segment");
            tile.let("own", fmt::format("min({}, rows - {})", c_.consumer_rows, first_row_));
            tile.when("own > 0", [&](Block& work) {
                work.add(Op::Trace, {"compute", "row"});
                multiply(work);
                lower_pointwise(work, c_.pattern.pointwise, "acc", offset("row", first_row_), "col");
                work.add(Op::Trace, {"store", "row"});
                store(work);
            });
            if (first_row_ > 0) tile.when("own <= 0", [&](Block& idle) { pass(idle); });
        });
        b.add(Op::Trace, {"idle", "0"});
        b.note("the kernel ends only after every store is complete");
        b.add(Op::BulkWait, {"0"});
    }

private:
    static std::string offset(const std::string& base, std::int64_t more) {
        return more == 0 ? base : fmt::format("{} + {}", base, more);
    }

    void wait_for_operands(Block& b) {
        if (c_.pattern.gathers()) {
            b.wait(Op::BarrierWait, {"a_full[ab.slot]", "ab.phase"}, "a_gathered");
            b.wait(Op::BarrierWait, {"b_full[ab.slot]", "ab.phase"}, "b_loaded");
        } else {
            b.wait(Op::BarrierWait, {"ab_full[ab.slot]", "ab.phase"}, "ab");
        }
    }

    // No group stays in flight over an iteration, as in ../lower_consumer.cpp.
    void multiply(Block& b) {
        b.add(Op::AccDeclare, {"acc", std::to_string(c_.consumer_rows), "tile_n"});
        b.for_each("k", "0", "k_blocks", "1", [&](Block& block) {
            wait_for_operands(block);
            block.add(Op::MmaBegin, {"acc"});
            block.add(Op::MmaIssue, {"tile_n", c_.pattern.transpose_b ? "0" : "1", c_.pattern.dtype, "acc",
                                     "a_stage[ab.slot]", std::to_string(first_row_), "b_stage[ab.slot]", "k != 0"});
            block.add(Op::MmaCommit);
            block.add(Op::MmaWait, {"0", "acc"});
            block.signal(Op::BarrierArrive, {"ab_empty[ab.slot]"}, "ab_free");
            block.add(Op::Advance, {"ab"});
        });
    }

    // A warpgroup without rows still hands the operands back.
    void pass(Block& b) {
        b.for_each("k", "0", "k_blocks", "1", [&](Block& block) {
            wait_for_operands(block);
            block.signal(Op::BarrierArrive, {"ab_empty[ab.slot]"}, "ab_free");
            block.add(Op::Advance, {"ab"});
        });
    }

    // A box of 64 rows that all belong to the segment leaves by TMA; of the last one the segment's rows are stored one
    // by one, since TMA clips at the tensor's end and the next segment follows without a gap.
    void store(Block& b) {
        const std::int64_t boxes = c_.consumer_rows / 64 * (c_.tile_n / 64);
        std::int64_t count = 0;
        for (std::int64_t block = 0; block < c_.consumer_rows / 64; ++block) {
            for (std::int64_t column = 0; column < c_.tile_n; column += 64) {
                const std::string box = fmt::format("out_box[{}]", kBoxes * index_ + count++ % kBoxes);
                // An odd number of boxes leaves the last store of the tile before in the first box of this one.
                const bool just_used = count == 1 && boxes % kBoxes != 0;
                const std::string row = offset("row", first_row_ + 64 * block), col = offset("col", column);
                b.add(Op::BulkWaitRead, {std::to_string(just_used ? 0 : kBoxes - 1)});
                b.add(Op::AgentSync);
                b.add(Op::StageBox,
                      {c_.pattern.output_dtype, box, "acc", std::to_string(block), std::to_string(column)});
                b.add(Op::FenceAsyncShared);
                b.add(Op::AgentSync);
                b.when(fmt::format("own >= {}", 64 * (block + 1)), [&](Block& whole) {
                    whole.add(Op::StoreBox, {"64", "64", c_.pattern.output_dtype, "out_map[0]", box, col, row, "0"});
                });
                b.when(fmt::format("own < {}", 64 * (block + 1)), [&](Block& part) {
                    part.add(Op::StoreRows, {c_.pattern.output_dtype, c_.pattern.output, box, row, col,
                                             block == 0 ? "own" : fmt::format("own - {}", 64 * block)});
                });
                b.add(Op::BulkCommit);
            }
        }
    }

    const Choices& c_;
    std::int64_t index_, first_row_;
};

}  // namespace

void lower_consumer(const Choices& c, std::int64_t index, Plan* plan) {
    ProgramDef* program = find_program(plan, fmt::format("compute_consumer{}", index));
    Block b(*plan);
    Consumer(c, index).program(b);
    program->body = b.take();
}

}  // namespace plait::grouped
