#include <fmt/format.h>

#include "compiler/passes/attention/declare.h"
#include "compiler/passes/attention/lower.h"
#include "compiler/passes/block.h"
#include "compiler/passes/place_roles.h"

namespace plait::attention {
namespace {

class Loader {
public:
    explicit Loader(const Choices& c) : c_(c) {}

    void program(Block& b) {
        b.add(Op::Pipe, {"query", "1"});
        b.add(Op::Pipe, {"key", "stages"});
        b.add(Op::Pipe, {"value", "stages"});
        b.add(Op::Pipe, {"ring", "2"});
        b.loop([&](Block& next) {
            next.add(Op::FetchTile, {"t"});
            next.wait(Op::BarrierWait, {"tile_empty[ring.slot]", "ring.phase ^ 1"}, "tile_free");
            next.note("no more tiles");
            next.when("t >= tiles", [&](Block& end) {
                end.add(Op::RingPut, {tile_word(TileWord::Row), "-1"});
                end.signal(Op::BarrierArrive, {"tile_full[ring.slot]"}, "tile");
            });
            next.add(Op::BreakIf, {"t >= tiles"});
            declare_tile(next, c_);
            next.add(Op::RingPut, {tile_word(TileWord::Row), "row"});
            next.add(Op::RingPut, {tile_word(TileWord::Head), "head"});
            next.signal(Op::BarrierArrive, {"tile_full[ring.slot]"}, "tile");
            next.add(Op::Advance, {"ring"});
            next.let("sequence", "head / heads");
            next.let("h", "head % heads");
            next.let("kv", "h / heads_per_kv");
            declare_blocks(next, c_);
            next.note("rows that see no key load nothing");
            next.when("blocks > 0", [&](Block& tile) { load_tile(tile); });
        });
        b.add(Op::Trace, {"idle", "0"});
    }

private:
    // x and z of a head's first column.
    std::string x(const std::string& head, std::int64_t column) const {
        if (c_.pattern.heads_first) return std::to_string(column);
        return column == 0 ? head + " * head_dim" : fmt::format("{} * head_dim + {}", head, column);
    }
    std::string z(const std::string& heads, const std::string& head) const {
        return c_.pattern.heads_first ? fmt::format("sequence * {} + {}", heads, head) : "sequence";
    }

    void load_tile(Block& b) {
        b.add(Op::Trace, {"load", "t"});
        b.wait(Op::BarrierWait, {"q_empty[query.slot]", "query.phase ^ 1"}, "q_free");
        b.add(Op::BarrierExpect, {"q_full[query.slot]", std::to_string(c_.tile_m * 128 * c_.boxes())});
        for (std::int64_t box = 0; box < c_.boxes(); ++box)
            b.signal(Op::LoadBoxes,
                     {"tile_m", "64", c_.pattern.dtype, fmt::format("q_stage[{}]", box), "q_map[0]", x("h", 64 * box), "row",
                      z("heads", "h"), "q_full[query.slot]"},
                     "q_loaded");
        b.add(Op::Advance, {"query"});
        b.note("from the last block down; keys run one block ahead of values, as the consumers do");
        b.let("last", "(blocks - 1) * key_block");
        load_keys(b, "last");
        b.for_each("back", "key_block", "last + 1", "key_block", [&](Block& block) {
            block.let("start", "last - back");
            load_keys(block, "start");
            load_values(block, "start + key_block");
        });
        load_values(b, "0");
    }

    void load_keys(Block& b, const std::string& start) {
        b.wait(Op::BarrierWait, {"k_empty[key.slot]", "key.phase ^ 1"}, "k_free");
        b.add(Op::BarrierExpect, {"k_full[key.slot]", std::to_string(c_.pattern.key_block * 128 * c_.boxes())});
        for (std::int64_t box = 0; box < c_.boxes(); ++box)
            b.signal(Op::LoadBoxes,
                     {"key_block", "64", c_.pattern.dtype, slot("k_stage", "key", c_.boxes(), box),
                      "k_map[0]", x("kv", 64 * box), start, z("kv_heads", "kv"), "k_full[key.slot]"},
                     "k_loaded");
        b.add(Op::Advance, {"key"});
    }

    void load_values(Block& b, const std::string& start) {
        b.wait(Op::BarrierWait, {"v_empty[value.slot]", "value.phase ^ 1"}, "v_free");
        b.add(Op::BarrierExpect, {"v_full[value.slot]", std::to_string(c_.pattern.key_block * 128 * c_.boxes())});
        for (std::int64_t half = 0; half < c_.halves(); ++half)
            b.signal(Op::LoadBoxes,
                     {"64", "head_dim", c_.pattern.dtype, slot("v_stage", "value", c_.halves(), half),
                      "v_map[0]", x("kv", 0), half == 0 ? start : start == "0" ? std::to_string(64 * half) : fmt::format("{} + {}", start, 64 * half),
                      z("kv_heads", "kv"), "v_full[value.slot]"},
                     "v_loaded");
        b.add(Op::Advance, {"value"});
    }

    const Choices& c_;
};

}  // namespace

void lower_loader(const Choices& c, Plan* plan) {
    Block b(*plan);
    Loader(c).program(b);
    find_program(plan, "compute_loader")->body = b.take();
}

}  // namespace plait::attention
