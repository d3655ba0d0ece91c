// Tile knobs fit each other: wgmma takes 64 rows a warpgroup, accumulators fit into registers, results leave in boxes of 128
// bytes a row.
#include <fmt/format.h>

#include "compiler/verify/rules.h"

namespace plait {
namespace {

constexpr std::int64_t kWarpgroup = 128;
constexpr std::int64_t kMaxAccumulator = 192;  // registers a thread, see check_registers

class Tiles {
public:
    explicit Tiles(const Request& r)
        : m_(r.schedule.integer("tile_m")), n_(r.schedule.integer("tile_n")), consumers_(r.schedule.integer("consumer_warpgroups")),
          k_boxes_(r.schedule.integer("tile_k") / 64), blocks_((r.problem.k + 63) / 64) {
        Diagnostics unused;
        const auto pattern = match_fused_pattern(r.graph, &unused);
        if (!pattern) return;
        gated_ = pattern->gated;
        gathers_ = pattern->all_gather && r.topology.world() > 1;
        box_ = pattern->output_dtype == "f32" ? 32 : 64;
    }

    Diagnostics run() {
        if (m_ % (64 * consumers_) != 0) {
            report(fmt::format("tile_m = {} is not a multiple of 64 x {} consumer warpgroups = {}", m_, consumers_, 64 * consumers_),
                   "/schedule/tile_m", fmt::format("use {}, or other consumer_warpgroups", 64 * consumers_));
        }
        if (gathers_ && n_ % box_ != 0) {
            report(fmt::format("tile_n = {} is not a multiple of {}: a box stores that many columns, and over gathered rows "
                               "the map clips at shards, not at tiles",
                               n_, box_),
                   "/schedule/tile_n", fmt::format("use {}; columns beyond N are clipped", (n_ + box_ - 1) / box_ * box_));
        }
        if (blocks_ % k_boxes_ != 0) {
            report(fmt::format("tile_k = {} takes {} blocks of 64 at a time, K has {}: zeros behind K would be summed, too", 64 * k_boxes_,
                               k_boxes_, blocks_),
                   "/schedule/tile_k", "use 64");
        }
        const std::int64_t registers = m_ / consumers_ * n_ * (gated_ ? 2 : 1) / kWarpgroup;
        if (gated_ && registers > kMaxAccumulator) {
            report(fmt::format("tile {} x {} of a gated matmul takes {} accumulator registers a thread, two for each element; "
                               "{} fit",
                               m_, n_, registers, kMaxAccumulator),
                   "/schedule/tile_n", "halve tile_n");
        }
        return std::move(findings_);
    }

private:
    void report(std::string message, std::string where, std::string hint) {
        findings_.push_back({"check_tiles", std::move(message), std::move(where), std::move(hint)});
    }

    std::int64_t m_, n_, consumers_, k_boxes_, blocks_, box_ = 64;
    bool gated_ = false, gathers_ = false;
    Diagnostics findings_;
};

}  // namespace

Diagnostics check_tiles(const Request& request) {
    const std::int64_t tile_k = request.schedule.integer("tile_k");
    if (tile_k != 64 && !pattern_as<FusedPattern>(request.graph)) {
        return {{"check_tiles", fmt::format("tile_k = {}: attention and grouped matmul load 64 of k at a time", tile_k),
                 "/schedule/tile_k", "use 64"}};
    }
    return is_attention(request.graph) ? Diagnostics() : Tiles(request).run();
}

}  // namespace plait
