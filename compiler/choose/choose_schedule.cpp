#include "compiler/choose/choose_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "compiler/choose/choose_attention.h"
#include "compiler/choose/tile_cost.h"
#include "compiler/choose/waves.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/plan_sizes.h"

namespace plait {
namespace {

// fp32 registers of the accumulators, a thread: what one, two and three warpgroups have, and beside a pointwise epilogue's
// own values.
constexpr std::int64_t kMaxAccumulator[] = {192, 192, 96}, kMaxBesideEpilogue[] = {160, 160, 80};

struct Ranked {
    Tile tile;
    TileCost cost;
};

// Column tiles share rows of a.
const char* cluster_along(Shared shared) { return shared == Shared::A ? "n" : "m"; }

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

// What the program would run on: a simulated launch takes the tiles of the GPU that it stands for.
Target gpu_of(const Target& target, const Topology& topology) {
    return target.is_host() ? Target::make("sm_90a", topology) : target;
}

MatmulShape shape_of(const FusedPattern& p, const Problem& problem, std::int64_t m) {
    MatmulShape shape{m, problem.n, problem.k, p.transpose_a, p.transpose_b, p.gated, false, element_bytes(p.output_dtype)};
    for (const PointwiseOp& op : p.pointwise) shape.pointwise = shape.pointwise || op.function != "cast";
    return shape;
}

// What the knobs `cluster` and `cluster_along` leave open.
std::vector<Shared> sharings_of(const Schedule& given, const Target& target) {
    if (given.is_set("cluster") ? given.integer("cluster") == 1 : target.sms < 2) return {Shared::None};
    std::vector<Shared> sharings;
    if (!given.is_set("cluster")) sharings.push_back(Shared::None);
    for (Shared shared : {Shared::A, Shared::B}) {
        if (!given.is_set("cluster_along") || given.word("cluster_along") == cluster_along(shared)) sharings.push_back(shared);
    }
    return sharings;
}

std::vector<Ranked> rank_tiles(const MatmulShape& shape, const Target& target, const std::vector<Shared>& sharings) {
    std::vector<Ranked> ranked;
    for (std::int64_t m : {64, 128, 192, 256}) {  // 64 rows are one warpgroup's: for problems that leave SMs idle
        for (std::int64_t n = 64; n <= 256; n += 16) {
            Tile tile{m, n, 0, m == 64 ? 1 : m == 192 ? 3 : 2, 2};
            // One warpgroup waits alone for its products: half as often with two blocks a stage.
            if (m == 64 && round_up(shape.k, 64) % 128 == 0) tile.depth = 128;
            const std::int64_t limit = (shape.pointwise ? kMaxBesideEpilogue : kMaxAccumulator)[tile.consumers - 1];
            if (accumulator_registers(shape, tile) > limit || n >= round_up(shape.n, 64) + 64) continue;
            tile.stages = stages_that_fit(shape, tile, target);
            if (tile.stages < 3) continue;
            for (Shared shared : sharings) {
                tile.shared = shared;
                ranked.push_back({tile, tile_cost(shape, tile, target)});
            }
        }
    }
    // Of tiles that cost the same the larger one moves fewer bytes.
    std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
        if (a.cost.cycles != b.cost.cycles) return a.cost.cycles < b.cost.cycles;
        return a.tile.m * a.tile.n > b.tile.m * b.tile.n;
    });
    return ranked;
}

// The first of another tile height or of a width that differs by more than a step: what a person would compare with.
const Ranked* runner_up(const std::vector<Ranked>& ranked) {
    for (const Ranked& r : ranked) {
        if (r.tile.shared != ranked.front().tile.shared && r.tile.m == ranked.front().tile.m) continue;
        if (r.tile.m != ranked.front().tile.m || std::abs(r.tile.n - ranked.front().tile.n) > 16) return &r;
    }
    return nullptr;
}

std::string reason_of(const std::vector<Ranked>& ranked, std::int64_t raster, const MatmulShape& shape, const Target& target) {
    const Ranked& best = ranked.front();
    const bool clustered = best.tile.shared != Shared::None;
    std::string text = fmt::format("tile {} x {}, {} stages of {}, {} consumer warpgroup{}, raster {}{}: at M = {} {} of {} SMs",
                                   best.tile.m, best.tile.n, best.tile.stages, best.tile.depth, best.tile.consumers,
                                   best.tile.consumers == 1 ? "" : "s", raster,
                                   clustered ? fmt::format(", clusters along {}", cluster_along(best.tile.shared)) : "", shape.m,
                                   fill_of(best.cost.tiles, target.sms), target.sms);
    if (const Ranked* other = runner_up(ranked))
        text += fmt::format("; {} x {} would cost {:.1f} % more ({})", other->tile.m, other->tile.n,
                            100 * (other->cost.cycles / best.cost.cycles - 1), fill_of(other->cost.tiles, target.sms));
    return text;
}

bool any_set(const Schedule& schedule) {
    for (const char* knob : {"tile_m", "tile_n", "tile_k", "stages", "consumer_warpgroups"}) {
        if (schedule.is_set(knob)) return true;
    }
    return false;
}

void set(Schedule* schedule, const char* knob, std::int64_t value) { schedule->set(knob, std::to_string(value)); }

// Segments end inside of tiles: the default tile, no wider than the output.
Chosen choose_grouped(const Schedule& given, const Problem& problem, const Target& target) {
    Chosen chosen{given, ""};
    const std::int64_t width = std::min<std::int64_t>(given.integer("tile_n"), round_up(problem.n, 64)), height = given.integer("tile_m");
    if (width != given.integer("tile_n")) set(&chosen.schedule, "tile_n", width);
    const auto limit = problem.limits.find("experts");
    const std::int64_t experts = limit == problem.limits.end() ? 1 : std::max<std::int64_t>(limit->second, 1);
    const std::int64_t rows = problem.m_max, each = ceil_div(ceil_div(rows, experts), height), columns = ceil_div(problem.n, width);
    chosen.reason = fmt::format("tile {} x {}, the default, no wider than the output: {} rows of {} experts alike in size make {} row tile{} "
                                "each, {}",
                                height, width, rows, experts, each, each == 1 ? "" : "s", fill_of(experts * each * columns, target.sms));
    return chosen;
}

}  // namespace

Chosen choose_schedule(const Graph& graph, const Schedule& given, const Problem& problem, const Topology& topology,
                       const Target& target, std::int64_t m) {
    Chosen chosen{given, "the schedule's own tile"};
    Diagnostics unused;  // the verifier reports them
    const std::optional<Pattern> matched = match_pattern(graph, &unused);
    if (!matched || problem.m_max <= 0) return chosen;
    if (const auto* attention = std::get_if<AttentionPattern>(&*matched)) {
        if (given.is_set("tile_m") || given.is_set("consumer_warpgroups")) return chosen;
        return choose_attention(*attention, given, problem, gpu_of(target, topology));
    }
    if (any_set(given)) return chosen;
    if (problem.n <= 0 || problem.k <= 0) return chosen;
    if (std::holds_alternative<GroupedPattern>(*matched)) return choose_grouped(given, problem, gpu_of(target, topology));
    const auto* pattern = &std::get<FusedPattern>(*matched);
    const std::int64_t m_or_most = m > 0 ? m : problem.m_max;
    if (pattern->all_gather && topology.world() > 1) {
        const std::int64_t widest = pattern->gated ? 128 : 256;
        const std::int64_t width = std::min(widest, round_up(problem.n, 64));
        if (width != given.integer("tile_n")) set(&chosen.schedule, "tile_n", width);
        chosen.reason = fmt::format("rows arrive from peers: tile 128 x {}, the default, no wider than the output", width);
        return chosen;
    }
    const Target gpu = gpu_of(target, topology);
    const std::int64_t rows = pattern->row_shard ? std::max<std::int64_t>(ceil_div(m_or_most, topology.world()), 1) : m_or_most;
    const MatmulShape shape = shape_of(*pattern, problem, rows);
    const std::vector<Ranked> ranked = rank_tiles(shape, gpu, sharings_of(given, target));
    if (ranked.empty()) return chosen;  // nothing fits: the verifier says what is missing
    const Tile& tile = ranked.front().tile;
    set(&chosen.schedule, "tile_m", tile.m);
    set(&chosen.schedule, "tile_n", tile.n);
    set(&chosen.schedule, "stages", tile.stages);
    if (tile.depth != given.integer("tile_k")) set(&chosen.schedule, "tile_k", tile.depth);
    set(&chosen.schedule, "consumer_warpgroups", tile.consumers);
    if (tile.shared != Shared::None) {
        set(&chosen.schedule, "cluster", 2);
        chosen.schedule.set("cluster_along", cluster_along(tile.shared));
    }
    const std::int64_t raster = given.is_set("raster_group") ? given.integer("raster_group") : raster_group(shape, tile, gpu);
    set(&chosen.schedule, "raster_group", raster);
    chosen.reason = reason_of(ranked, raster, shape, gpu);
    return chosen;
}

}  // namespace plait
