// One consumer warpgroup: multiply, pointwise, store.
#include <fmt/format.h>

#include "compiler/passes/block.h"
#include "compiler/passes/lower_compute.h"
#include "compiler/passes/place_roles.h"
#include "compiler/passes/pointwise.h"

namespace plait {
namespace {

constexpr std::int64_t kBoxes = 2;  // output boxes of a warpgroup: one is filled while the other is stored

class Consumer {
public:
    Consumer(const Choices& c, std::int64_t index) : c_(c), index_(index), first_row_(index * c.consumer_rows) {}

    void program(Block& b) {
        b.add(Op::Pipe, {"ab", "stages"});
        b.add(Op::Pipe, {"ring", "2"});
        b.loop([&](Block& next) {
            next.wait(Op::BarrierWait, {"tile_full[ring.slot]", "ring.phase"}, "tile");
            next.add(Op::RingGet, {"t", "tile_slot[ring.slot]"});
            next.signal(Op::BarrierArrive, {"tile_empty[ring.slot]"}, "tile_free");
            next.add(Op::Advance, {"ring"});
            next.add(Op::BreakIf, {"t >= tiles"});
            declare_tile(next, c_);
            next.when("rows > 0", [&](Block& tile) {
                tile.add(Op::Trace, {"compute", "t"});
                multiply(tile);
                pointwise(tile);
                tile.add(Op::Trace, {"store", "t"});
                store(tile);
            });
        });
        b.add(Op::Trace, {"idle", "0"});
        b.note("the kernel ends only after every store is complete");
        b.add(Op::BulkWait, {"0"});
    }

private:
    // No group stays in flight over an iteration: with two consumer warpgroups one waits while the other multiplies, so
    // nothing is lost, and ptxas never sees an accumulator named while a wgmma writes it (C7518, C7520: serialized).
    void multiply(Block& b) {
        b.add(Op::AccDeclare, {"acc", std::to_string(c_.consumer_rows), "tile_n"});
        b.for_each("k", "0", "k_blocks", "1", [&](Block& block) {
            block.wait(Op::BarrierWait, {"ab_full[ab.slot]", "ab.phase"}, "ab");
            block.add(Op::MmaBegin, {"acc"});
            block.add(Op::MmaIssue, {"tile_n", c_.pattern.transpose_b ? "0" : "1", c_.pattern.dtype, "acc", "a_stage[ab.slot]",
                                     std::to_string(first_row_), "b_stage[ab.slot]", "k != 0"});
            block.add(Op::MmaCommit);
            block.add(Op::MmaWait, {"0", "acc"});
            block.signal(Op::BarrierArrive, {"ab_empty[ab.slot]"}, "ab_free");
            block.add(Op::Advance, {"ab"});
        });
    }

    static std::string offset(const std::string& base, std::int64_t more) {
        return more == 0 ? base : fmt::format("{} + {}", base, more);
    }

    void pointwise(Block& b) {
        const std::string origin = offset(c_.communicates ? "q * shard + row" : "row", first_row_);
        lower_pointwise(b, c_.pattern.pointwise, "acc", origin, "col");
    }

    // Unrolled: the accumulator lives in registers and is indexed by constants.
    void store(Block& b) {
        std::string map = "c_map[0]", z = "0";
        if (c_.communicates) {
            b.let("out", "q == tail ? 1 : 0");
            b.let("out_z", "q == tail ? 0 : q");
            map = "c_map[out]", z = "out_z";
        }
        const std::int64_t boxes = c_.consumer_rows / 64 * (c_.tile_n / 64);
        std::int64_t count = 0;
        for (std::int64_t block = 0; block < c_.consumer_rows / 64; ++block) {
            for (std::int64_t column = 0; column < c_.tile_n; column += 64) {
                const std::string box = fmt::format("c_box[{}]", kBoxes * index_ + count++ % kBoxes);
                // An odd number of boxes leaves the last store of the tile before in the first box of this one.
                const bool just_used = count == 1 && boxes % kBoxes != 0;
                b.add(Op::BulkWaitRead, {std::to_string(just_used ? 0 : kBoxes - 1)});
                b.add(Op::AgentSync);
                b.add(Op::StageBox,
                      {c_.pattern.output_dtype, box, "acc", std::to_string(block), std::to_string(column)});
                b.add(Op::FenceAsyncShared);
                b.add(Op::AgentSync);
                b.add(Op::StoreBox, {"64", "64", c_.pattern.output_dtype, map, box, offset("col", column),
                                     offset("row", first_row_ + 64 * block), z});
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

}  // namespace plait
