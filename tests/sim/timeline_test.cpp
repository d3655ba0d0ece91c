// The timeline shows the overlap that the kernel exists for: communication and math go on side by side, tile by tile.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "runtime/trace/trace_kind.h"
#include "tests/sim/harness.h"

namespace plait::testing {
namespace {

struct Overlap {
    std::uint64_t first_remote_tile = std::numeric_limits<std::uint64_t>::max();   // step at which its math starts
    std::uint64_t last_chunk_sent = 0;   // step at which a peer starts to send the last chunk to this rank: it arrives later
};

// Tiles are numbered shard after shard in order of arrival, the own shard's first.
Overlap overlap_of(const Kernel& kernel, const LaunchReport& report, std::uint32_t rank, std::int64_t shard_tiles) {
    const int locals = kernel.topology.gpus_per_node;
    Overlap overlap;
    for (const TraceEvent& event : report.events) {
        const auto kind = static_cast<TraceKind>(event.kind);
        if (event.rank == rank) {
            if (kind == TraceKind::Compute && event.value >= shard_tiles)
                overlap.first_remote_tile = std::min(overlap.first_remote_tile, event.step);
            continue;
        }
        const bool same_node = static_cast<int>(event.rank) / locals == static_cast<int>(rank) / locals;
        const bool same_rail = static_cast<int>(event.rank) % locals == static_cast<int>(rank) % locals;
        if ((kind == TraceKind::Push && same_node) || (kind == TraceKind::Send && same_rail))
            overlap.last_chunk_sent = std::max(overlap.last_chunk_sent, event.step);
    }
    return overlap;
}

class Timeline : public ::testing::TestWithParam<const char*> {};

TEST_P(Timeline, EveryRankComputesARemoteTileBeforeItsLastRemoteChunkHasArrived) {
    Case c{"timeline", GetParam(), 1024, 64, 72, {{"chunk_rows", "16"}}, {}};
    const Kernel kernel = build(c);
    const std::int64_t shard = c.m / kernel.topology.world();
    for (int seed = 1; seed <= 4; ++seed) {
        const Outcome outcome = run(kernel, seed, NetworkContract::Unordered, 1, -1, true);
        ASSERT_TRUE(outcome.ok()) << outcome.fault;
        for (int rank = 0; rank < kernel.topology.world(); ++rank) {
            const Overlap overlap = overlap_of(kernel, outcome.report, rank, (shard + 63) / 64);
            EXPECT_LT(overlap.first_remote_tile, overlap.last_chunk_sent) << "rank " << rank << " seed " << seed;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Topologies, Timeline, ::testing::Values("1x2", "2x1", "2x2", "1x4"));

}  // namespace
}  // namespace plait::testing
