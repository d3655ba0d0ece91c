// One consumer warpgroup: multiply, pointwise, store.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/passes/block.h"
#include "compiler/passes/lower_compute.h"
#include "compiler/passes/place_roles.h"
#include "compiler/passes/pointwise.h"

namespace plait {
namespace {

class Consumer {
public:
    Consumer(const Choices& c, std::int64_t index) : c_(c), index_(index), first_row_(index * c.consumer_rows) {}

    void program(Block& b) {
        b.add(Op::Pipe, {"ab", "stages"});
        const Block::Body compute = [&](Block& tile) {
            tile.add(Op::Trace, {"compute", "t"});
            multiply(tile);
            pointwise(tile);
            tile.add(Op::Trace, {"store", "t"});
            store(tile);
        };
        if (!c_.communicates) {
            for_each_own_tile(b, c_, compute);
        } else {
            b.add(Op::Pipe, {"ring", "2"});
            b.loop([&](Block& next) {
                next.wait(Op::BarrierWait, {"tile_full[ring.slot]", "ring.phase"}, "tile");
                next.add(Op::RingGet, {"t", "tile_slot[ring.slot]"});
                next.signal(Op::BarrierArrive, {"tile_empty[ring.slot]"}, "tile_free");
                next.add(Op::Advance, {"ring"});
                next.add(Op::BreakIf, {"t >= tiles"});
                declare_tile(next, c_);
                next.when("rows > 0", compute);
            });
        }
        b.add(Op::Trace, {"idle", "0"});
        b.note("the kernel ends only after every store is complete");
        b.add(Op::BulkWait, {"0"});
    }

private:
    // No group stays in flight over an iteration: with two consumer warpgroups one waits while the other multiplies, so
    // nothing is lost, and ptxas never sees an accumulator named while a wgmma writes it (C7518, C7520: serialized).
    void multiply(Block& b) {
        b.add(Op::AccDeclare, {"acc", std::to_string(c_.consumer_rows), "tile_n"});
        if (c_.pattern.gated) b.add(Op::AccDeclare, {"up", std::to_string(c_.consumer_rows), "tile_n"});
        b.for_each("k", "0", "k_blocks", "1", [&](Block& block) {
            block.wait(Op::BarrierWait, {"ab_full[ab.slot]", "ab.phase"}, "ab");
            block.add(Op::MmaBegin, {"acc"});
            if (c_.pattern.gated) block.add(Op::MmaBegin, {"up"});
            issue(block, "acc", "b_stage");
            if (c_.pattern.gated) issue(block, "up", "up_stage");
            block.add(Op::MmaCommit);
            block.add(Op::MmaWait, {"0", "acc", c_.pattern.gated ? "up" : ""});
            if (c_.clustered())
                block.signal(Op::ClusterArrive, {"cluster", "ab_empty[ab.slot]"}, "ab_free");
            else
                block.signal(Op::BarrierArrive, {"ab_empty[ab.slot]"}, "ab_free");
            block.add(Op::Advance, {"ab"});
        });
    }

    void issue(Block& b, const std::string& acc, const char* array) {
        std::vector<std::string> operands = {"tile_n", c_.pattern.transpose_b ? "0" : "1", c_.pattern.dtype, acc,
                                             slot("a_stage", "ab", c_.k_boxes), std::to_string(first_row_),
                                             slot(array, "ab", c_.k_boxes), "k != 0"};
        if (c_.k_boxes > 1 || c_.pattern.transpose_a) operands.push_back(c_.k_boxes > 1 ? std::to_string(c_.k_boxes) : "");
        if (c_.pattern.transpose_a) operands.push_back("1");
        b.add(Op::MmaIssue, std::move(operands));
    }

    static std::string offset(const std::string& base, std::int64_t more) {
        if (base.empty()) return std::to_string(more);
        return more == 0 ? base : fmt::format("{} + {}", base, more);
    }

    void pointwise(Block& b) {
        if (c_.pattern.gated) {
            if (!c_.pattern.gate_source.empty()) b.note(c_.pattern.gate_source);
            b.add(Op::AccJoin, {"silu_mul", "acc", "up"});
        }
        const std::string origin = offset(c_.communicates ? "q * shard + row" : "row", first_row_);
        lower_pointwise(b, c_.pattern.pointwise, "acc", origin, "col");
    }

    // Half of the boxes is filled while the stores of the other half read theirs. Unrolled: the accumulator lives in registers
    // and is indexed by constants.
    void store(Block& b) {
        std::string map = "c_map[0]", column_base = "col", z = "0";
        if (c_.communicates) {
            b.let("out", "q == tail ? 1 : 0");
            b.let("out_z", "q == tail ? 0 : q");
            map = "c_map[out]", z = "out_z";
        } else if (c_.ragged_columns()) {
            column_base.clear(), z = "col / tile_n";
            if (c_.n % c_.tile_n != 0) {
                b.let("out", "col + tile_n > N ? 1 : 0");
                map = "c_map[out]", z = "out == 1 ? 0 : col / tile_n";
                // A cluster's second tile may lie beyond the last column: then behind its map, where nothing is stored.
                if (c_.shares_a) z = "out == 1 ? col / tile_n - N / tile_n : col / tile_n";
            }
            b.let("out_z", std::exchange(z, "out_z"));
        }
        std::vector<Box> boxes;
        for (std::int64_t block = 0; block < c_.consumer_rows / 64; ++block) {
            for (std::int64_t column = 0; column < c_.tile_n; column += c_.box_cols) boxes.push_back({block, column});
        }
        const std::size_t half = std::size_t(c_.output_boxes / 2), groups = (boxes.size() + half - 1) / half;
        for (std::size_t group = 0; group < groups; ++group) {
            // An odd number of groups leaves the last stores of the tile before in the first half of this one.
            b.add(Op::BulkWaitRead, {group == 0 && groups % 2 != 0 ? "0" : "1"});
            b.add(Op::AgentSync);
            const std::size_t first = group * half, last = std::min(first + half, boxes.size());
            const auto slot = [&](std::size_t i) {
                return fmt::format("c_box[{}]", std::size_t(c_.output_boxes * index_) + group % 2 * half + i - first);
            };
            for (std::size_t i = first; i < last; ++i) {
                b.add(Op::StageBox, {c_.pattern.output_dtype, slot(i), "acc", std::to_string(boxes[i].block),
                                     std::to_string(boxes[i].column)});
            }
            b.add(Op::FenceAsyncShared);
            b.add(Op::AgentSync);
            for (std::size_t i = first; i < last; ++i) {
                b.add(Op::StoreBox, {"64", std::to_string(c_.box_cols), c_.pattern.output_dtype, map, slot(i),
                                     offset(column_base, boxes[i].column), offset("row", first_row_ + 64 * boxes[i].block), z});
            }
            b.add(Op::BulkCommit);
        }
    }

    struct Box {
        std::int64_t block, column;
    };
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
