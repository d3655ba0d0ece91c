// Attention: a consumer warpgroup computes 64 rows, tiles and coordinates fit into 32 bits.
#include <fmt/format.h>

#include "compiler/verify/rules.h"

namespace plait {
namespace {

constexpr double kMaxTiles = 0x7fffffff;  // raster_row and raster_col divide 32-bit numbers

class Attention {
public:
    Attention(const Request& request, const AttentionPattern& pattern) : r_(request), p_(pattern) {}

    Diagnostics run() {
        tiles();
        sizes();
        return std::move(findings_);
    }

private:
    void report(std::string message, std::string where, std::string hint) {
        findings_.push_back({"check_attention", std::move(message), std::move(where), std::move(hint)});
    }

    void tiles() {
        const Schedule& s = r_.schedule;
        const std::int64_t rows = s.integer("tile_m"), consumers = s.integer("consumer_warpgroups");
        if (s.is_set("tile_m") && s.is_set("consumer_warpgroups") && rows != 64 * consumers)
            report(fmt::format("tile_m = {} with {} consumer warpgroups: attention computes 64 rows in each", rows, consumers),
                   "/schedule/tile_m", fmt::format("use {}, or give one of the two", 64 * consumers));
        else if (s.is_set("tile_m") && rows > 192)
            report(fmt::format("tile_m = {} needs {} consumer warpgroups, there are at most 3", rows, rows / 64),
                   "/schedule/tile_m", "use 64, 128 or 192");
    }

    void sizes() {
        const auto& limits = r_.problem.limits;
        const auto limit = [&](const char* name) { return limits.count(name) ? double(limits.at(name)) : 1.0; };
        const double tiles = limit("batch") * double(p_.heads) * double((r_.problem.m_max + 63) / 64);
        if (tiles > kMaxTiles)
            report(fmt::format("batch {:.0f} x {} heads x {} rows are {:.0f} tiles of 64 rows, more than 2^31 - 1",
                               limit("batch"), p_.heads, r_.problem.m_max, tiles),
                   "/problem", "lower a limit: tiles are numbered with 32 bits");
        const std::int64_t row = p_.heads * p_.head_dim;
        if (row > kMaxTmaCoordinate)
            report(fmt::format("{} heads of {} are {} columns, more than 2^31 - 1", p_.heads, p_.head_dim, row), "/graph/inputs",
                   "TMA coordinates are 32-bit");
    }

    const Request& r_;
    const AttentionPattern& p_;
    Diagnostics findings_;
};

}  // namespace

Diagnostics check_attention(const Request& request) {
    const auto pattern = pattern_as<AttentionPattern>(request.graph);
    if (!pattern) return {};
    return Attention(request, *pattern).run();
}

}  // namespace plait
