// Tile knobs fit each other: wgmma takes 64 rows a warpgroup, results leave in boxes of 64 columns.
#include <fmt/format.h>

#include "compiler/verify/rules.h"

namespace plait {

Diagnostics check_tiles(const Request& request) {
    Diagnostics findings;
    if (is_attention(request.graph)) return findings;
    const Schedule& s = request.schedule;
    const std::int64_t m = s.integer("tile_m"), n = s.integer("tile_n"), consumers = s.integer("consumer_warpgroups");
    if (m % (64 * consumers) != 0) {
        findings.push_back({"check_tiles",
                            fmt::format("tile_m = {} is not a multiple of 64 x {} consumer warpgroups = {}", m,
                                        consumers, 64 * consumers),
                            "/schedule/tile_m", fmt::format("use {}, or other consumer_warpgroups", 64 * consumers)});
    }
    if (n % 64 != 0) {
        findings.push_back(
            {"check_tiles",
             fmt::format("tile_n = {} is not a multiple of 64: a box stores 64 columns and would write its neighbour's",
                         n),
             "/schedule/tile_n", fmt::format("use {}; columns beyond N are clipped", (n + 63) / 64 * 64)});
    }
    return findings;
}

}  // namespace plait
