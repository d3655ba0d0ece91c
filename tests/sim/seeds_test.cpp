// Deterministic simulation: topologies, ragged shapes and placements under many seeds, on an ordered (RC-like) and an
// unordered (SRD-like) network. Every output element is compared with a float64 reference.
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/sim/harness.h"

namespace plait::testing {
namespace {

constexpr int kSeedsPerCase = 34;

std::vector<Case> cases() {
    const std::map<std::string, std::string> warp = {{"intra_comm", "warp"}, {"inter_send", "warp"}};
    const std::map<std::string, std::string> sms = {{"intra_comm", "sms"}, {"inter_send", "sms"}};
    return {
        {"one_rank", "1x1", 100, 72, 136, {}, {}, true},
        {"two_ranks", "1x2", 130, 136, 72, {}, {}},
        {"two_ranks_warp", "1x2", 257, 72, 64, {{"intra_comm", "warp"}}, {"bias", "gelu"}},
        {"two_ranks_sms", "1x2", 128, 64, 128, {{"intra_comm", "sms"}}, {}},
        {"three_ranks", "1x3", 100, 40, 72, {}, {"relu"}},
        {"five_ranks", "1x5", 77, 72, 40, {{"order", "rank"}}, {}},
        {"eight_ranks_few_rows", "1x8", 5, 72, 72, {}, {}},
        {"two_nodes", "2x1", 190, 72, 136, {}, {}},
        {"two_nodes_two", "2x2", 200, 136, 72, {}, {"bias"}},
        {"two_nodes_two_warp", "2x2", 131, 72, 72, warp, {"silu"}},
        {"two_nodes_two_sms", "2x2", 200, 72, 72, sms, {}},
        {"two_nodes_three", "2x3", 123, 40, 40, {{"chunk_rows", "8"}}, {}},
        {"three_nodes", "3x2", 95, 72, 40, {}, {"residual"}},
        {"four_nodes", "4x2", 260, 40, 72, {{"chunk_rows", "16"}}, {"gelu_tanh"}},
        {"four_nodes_four", "4x4", 130, 40, 40, {}, {}},
        {"no_rows_at_some_ranks", "2x2", 3, 72, 72, {}, {}},
        {"half_precision", "2x2", 150, 72, 136, {}, {"scale", "residual"}, true, false, 0, 3, "f16"},
        {"transposed_b", "1x2", 150, 72, 136, {}, {"bias"}, true, true},
        {"matmul_alone", "1x1", 150, 136, 72, {}, {"relu"}, false},
        {"two_blocks_a_stage", "2x2", 150, 72, 200, {{"tile_k", "128"}}, {"bias"}},
        {"three_blocks_a_stage", "1x1", 100, 136, 328, {{"tile_k", "192"}}, {}, false, true},
        // an odd number of row tiles, of column tiles, and of SMs: some tiles lie beyond the output
        {"clusters_share_b", "1x1", 150, 136, 136, {{"cluster", "2"}}, {"bias", "residual"}, false, false, 0, 5},
        {"clusters_share_b_transposed", "1x2", 200, 72, 200, {{"cluster", "2"}, {"tile_m", "128"}, {"consumer_warpgroups", "2"}},
         {"relu"}, false, true, 0, 4},
        {"clusters_share_a", "1x1", 150, 136, 136, {{"cluster", "2"}, {"cluster_along", "n"}}, {"residual"}, false, false, 0, 5},
        {"clusters_of_ragged_columns", "1x1", 70, 136, 200, {{"cluster", "2"}, {"cluster_along", "n"}, {"tile_n", "48"}}, {"bias"},
         false, true, 0, 4},
        {"clusters_of_whole_columns", "1x1", 70, 144, 72, {{"cluster", "2"}, {"cluster_along", "n"}, {"tile_n", "48"}}, {}, false},
    };
}

class Seeds : public ::testing::TestWithParam<Case> {};

TEST_P(Seeds, EveryTileIsRightOnBothNetworks) {
    Case c = GetParam();
    const auto is_sms = [&](const char* role) { auto it = c.knobs.find(role); return it != c.knobs.end() && it->second == "sms"; };
    if (is_sms("intra_comm") || is_sms("inter_send")) c.sms = 5;
    const Kernel kernel = build(c);
    for (int seed = 1; seed <= kSeedsPerCase; ++seed) {
        const NetworkContract network = seed % 2 ? NetworkContract::Ordered : NetworkContract::Unordered;
        const Outcome outcome = run(kernel, seed, network);
        ASSERT_EQ(outcome.fault, "") << "seed " << seed;
        ASSERT_LE(outcome.worst, 1.0) << "seed " << seed << ", largest error " << outcome.worst_error;
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Seeds, ::testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

TEST(Seeds, AtLeastFiveHundredSeedsOverTwelvePairs) {
    EXPECT_GE(cases().size(), 12u);
    EXPECT_GE(cases().size() * kSeedsPerCase, 500u);
}

TEST(OneArtifact, ServesEveryMUpToItsMaximum) {
    Case c{"every_m", "2x2", 140, 72, 72, {}, {}};
    c.m_max = 140;
    const Kernel kernel = build(c);
    for (std::int64_t m : {0, 1, 3, 4, 5, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 139, 140}) {
        const Outcome outcome = run(kernel, 3 + m, NetworkContract::Unordered, 2, m);
        EXPECT_TRUE(outcome.ok()) << "M " << m << ": " << outcome.fault << ", worst " << outcome.worst;
    }
}

TEST(Simulation, SameSeedSameRun) {
    const Kernel kernel = build({"again", "2x2", 100, 72, 72, {}, {}});
    const Outcome first = run(kernel, 11, NetworkContract::Unordered, 1, -1, true);
    const Outcome again = run(kernel, 11, NetworkContract::Unordered, 1, -1, true);
    const Outcome other = run(kernel, 12, NetworkContract::Unordered, 1, -1, true);
    EXPECT_EQ(first.report.steps, again.report.steps);
    EXPECT_NE(first.report.steps, other.report.steps);
}

TEST(Traffic, EachShardCrossesTheNetworkOncePerNodePair) {
    const Kernel kernel = build({"traffic", "2x2", 128, 64, 64, {}, {}});
    const Outcome outcome = run(kernel, 1, NetworkContract::Ordered, 1);
    ASSERT_TRUE(outcome.ok()) << outcome.fault;
    const std::uint64_t shard_bytes = 32 * 64 * 2;
    for (const LinkTraffic& link : outcome.report.links) {
        if (!link.network) continue;
        EXPECT_EQ(link.bytes, shard_bytes) << link.from << " -> " << link.to;
        EXPECT_EQ(link.from % 2, link.to % 2) << "leaves its rail";
    }
}

}  // namespace
}  // namespace plait::testing
