#include "compiler/passes/lower_compute.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "compiler/passes/block.h"
#include "compiler/passes/place_roles.h"

namespace plait {

void declare_tile(Block& b, const Choices& c) {
    if (!c.communicates) {
        const char* cols = c.shares_a ? "cluster_cols" : "col_tiles";
        const auto origin = [&](const char* name, const char* raster, const char* tile, bool neighbours) {
            const std::string at = fmt::format("{}(t, row_tiles, {}, raster_group)", raster, cols);
            b.let(name, neighbours ? fmt::format("({} * cluster + cta % cluster) * {}", at, tile)
                                   : fmt::format("{} * {}", at, tile));
        };
        origin("row", "raster_row", "tile_m", c.shares_b);
        origin("col", "raster_col", "tile_n", c.shares_a);
        return;
    }
    b.let("step", "t / shard_tiles");
    b.let("u", "t % shard_tiles");
    // arrival: own shard, the rest of this node, then node after node, each over all rails
    b.let("q",
          c.order == "rank" ? "step" : "(node + step / locals) % nodes * locals + (local + step % locals) % locals");
    b.let("row", "raster_row(u, row_tiles, col_tiles, raster_group) * tile_m");
    b.let("col", "raster_col(u, row_tiles, col_tiles, raster_group) * tile_n");
    b.let("rows", "min(tile_m, min(shard, max(M - q * shard, 0)) - row)");
}

void for_each_own_tile(Block& b, const Choices& c, const Block::Body& body) {
    const bool clustered = c.clustered();
    b.for_each("t", clustered ? "cta / cluster" : "cta", "tiles", clustered ? "ctas / cluster" : "ctas",
               [&](Block& tile) {
                   declare_tile(tile, c);
                   body(tile);
               });
}

namespace {

void wait_for_chunks(Block& b, const Choices& c) {
    b.when("q != rank", [&](Block& remote) {
        remote.let("first", "row / chunk_rows");
        remote.let("count", "(row + rows - 1) / chunk_rows - first + 1");
        remote.add(Op::Trace, {"wait", "t"});
        remote.wait(Op::WaitFlags, {"a_ready", "q * chunks_max + first", "count", "epoch"},
                    c.locals > 1 ? "a_ready" : "a_arrived");
        remote.add(Op::Trace, {"arrived", "q * chunks_max + first"});
    });
}

struct OperandLoad {
    const char *extent, *array;  // of the tile along M or N; where it goes
    std::string map, at, z;      // where it starts
};

// One box of 64 of k of an operand. k_rows: memory holds k by rows (a transposed, b not): boxes of 64 k x 64 stand side by
// side. Else k is the inner dimension: one box of 64 k and all of the extent. shared: all CTAs of the cluster load it together.
void load_operand(Block& b, const Choices& c, bool k_rows, bool shared, std::int64_t box, const OperandLoad& load) {
    const std::string k = box == 0 ? "k * tile_k" : fmt::format("k * tile_k + {}", 64 * box);
    std::vector<std::string> operands = {"64", load.extent, c.pattern.dtype, slot(load.array, "ab", c.k_boxes, box), load.map, load.at, k,
                                         load.z, "ab_full[ab.slot]"};
    if (!k_rows) std::swap(operands[0], operands[1]), std::swap(operands[5], operands[6]);
    if (shared) operands.insert(operands.begin(), "cluster");
    b.signal(shared ? Op::LoadMulticast : Op::LoadBoxes, std::move(operands), "ab");
}

void load_tile(Block& b, const Choices& c) {
    std::string map = "a_map[0]", z = "0";
    if (c.communicates) {
        wait_for_chunks(b, c);
        b.note("own rows come from the caller's tensor; the short shard has its own map");
        b.let("entry", "q == rank ? 0 : q == tail ? 2 : 1");
        b.let("z", "q == rank ? 0 : bank * world + q");
        map = "a_map[entry]", z = "z";
    }
    b.add(Op::Trace, {"load", "t"});
    b.for_each("k", "0", "k_blocks", "1", [&](Block& block) {
        block.wait(Op::BarrierWait, {"ab_empty[ab.slot]", "ab.phase ^ 1"}, "ab_free");
        block.add(Op::BarrierExpect, {"ab_full[ab.slot]", std::to_string(c.stage_bytes())});
        const bool b_k_rows = !c.pattern.transpose_b;
        for (std::int64_t box = 0; box < c.k_boxes; ++box) {
            load_operand(block, c, c.pattern.transpose_a, c.shares_a, box, {"tile_m", "a_stage", map, "row", z});
            load_operand(block, c, b_k_rows, c.shares_b, box, {"tile_n", "b_stage", "b_map[0]", "col", "0"});
            if (c.pattern.gated) load_operand(block, c, b_k_rows, c.shares_b, box, {"tile_n", "up_stage", "b_map[0]", "col", "1"});
        }
        block.add(Op::Advance, {"ab"});
    });
}

void await_peers(Block& b) {
    b.note("a CTA ends only after its peer's consumers have freed every slot: they arrive here");
    b.for_each("i", "0", "stages", "1", [](Block& slot) {
        slot.wait(Op::BarrierWait, {"ab_empty[ab.slot]", "ab.phase ^ 1"}, "ab_free");
        slot.add(Op::Advance, {"ab"});
    });
}

void lower_loader(const Choices& c, Plan* plan) {
    ProgramDef* program = find_program(plan, "compute_loader");
    Block b(*plan);
    if (c.communicates) {
        b.add(Op::Enter, {"epoch"});
        b.let("bank", "epoch % 2");
    }
    b.add(Op::Pipe, {"ab", "stages"});
    if (!c.communicates) {
        for_each_own_tile(b, c, [&](Block& tile) { load_tile(tile, c); });
        if (c.clustered()) await_peers(b);
    } else {
        b.add(Op::Pipe, {"ring", "2"});
        b.loop([&](Block& next) {
            next.add(Op::FetchTile, {"t"});
            next.wait(Op::BarrierWait, {"tile_empty[ring.slot]", "ring.phase ^ 1"}, "tile_free");
            next.add(Op::RingPut, {"tile_slot[ring.slot]", "t"});
            next.signal(Op::BarrierArrive, {"tile_full[ring.slot]"}, "tile");
            next.add(Op::Advance, {"ring"});
            next.add(Op::BreakIf, {"t >= tiles"});
            declare_tile(next, c);
            next.when("rows > 0", [&](Block& tile) { load_tile(tile, c); });
        });
    }
    b.add(Op::Trace, {"idle", "0"});
    if (c.communicates) b.signal(Op::AgentFinished, {}, "finished");
    program->body = b.take();
}

}  // namespace

void lower_compute(const Choices& c, Plan* plan) {
    lower_loader(c, plan);
    for (std::int64_t i = 0; i < c.consumers; ++i) lower_consumer(c, i, plan);
}

}  // namespace plait
