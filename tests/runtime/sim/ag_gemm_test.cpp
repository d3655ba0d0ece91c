#include <gtest/gtest.h>

#include "tests/runtime/sim/ag_gemm_case.h"

namespace plait::testing {
namespace {

using OneNode = SmallShape<1, 2>;
using TwoNodes = SmallShape<2, 2>;
using Alone = SmallShape<1, 1>;
using SixteenRanks = SmallShape<4, 4>;

SimOptions options_of(std::uint64_t seed, NetworkContract network) {
    SimOptions options;
    options.seed = seed;
    options.network = network;
    return options;
}

// Every element of every rank's output against the float64 reference, every output byte written.
template <class S>
void expect_right(const std::vector<std::int64_t>& ms, std::uint64_t seeds, int sms = 3) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        for (NetworkContract network : {NetworkContract::Ordered, NetworkContract::Unordered}) {
            const CaseResult result = run_case<S>(options_of(seed, network), ms, sms);
            EXPECT_LE(result.worst, 1.0) << "seed " << seed
                                         << (network == NetworkContract::Ordered ? " ordered" : " unordered");
            EXPECT_EQ(result.unwritten, 0u) << "seed " << seed;
        }
    }
}

TEST(SimAgGemm, IsRightOnOneNode) { expect_right<OneNode>({200, 77, 256}, 4); }
TEST(SimAgGemm, IsRightOnTwoNodes) { expect_right<TwoNodes>({200, 3, 250, 1}, 4); }
TEST(SimAgGemm, IsRightOnOneRank) { expect_right<Alone>({200, 1}, 2); }
TEST(SimAgGemm, IsRightOnSixteenRanks) { expect_right<SixteenRanks>({250, 7}, 1, 2); }
TEST(SimAgGemm, IsRightOnOneCta) { expect_right<TwoNodes>({130, 130}, 2, 1); }
TEST(SimAgGemm, TakesAnEmptyProblem) { expect_right<TwoNodes>({0, 64, 0}, 1); }

TEST(SimAgGemm, RunsManyLaunchesThroughSmallRings) {
    SimOptions options = options_of(5, NetworkContract::Unordered);
    options.fifo_slots = 2;
    options.arrival_slots = 2;
    options.send_queue_depth = 1;
    const CaseResult result = run_case<TwoNodes>(options, std::vector<std::int64_t>(6, 200));
    EXPECT_LE(result.worst, 1.0);
}

TEST(SimAgGemm, RepeatsItselfForTheSameSeed) {
    const auto run = [](std::uint64_t seed) {
        SimOptions options = options_of(seed, NetworkContract::Unordered);
        options.trace = true;
        return run_case<TwoNodes>(options, {200, 200}).steps;
    };
    EXPECT_EQ(run(3), run(3));
    EXPECT_NE(run(3), run(4));
}

// Bits do not depend on the interleaving.
TEST(SimAgGemm, GivesTheSameBitsForEverySeed) {
    std::vector<std::uint64_t> first;
    for (std::uint64_t seed : {1, 2, 3}) {
        SimCluster cluster(small_cluster(2, 2, 3), options_of(seed, NetworkContract::Unordered));
        Random random(9);
        std::vector<RankBuffers<TwoNodes>> ranks;
        fill_case<TwoNodes>(ranks, 200, random);
        cluster.launch(ag_gemm_artifact<TwoNodes>(), {AgGemm<TwoNodes, Fault::None>::entry, nullptr}, 200,
                       tensors_of<TwoNodes>(ranks));
        if (first.empty()) first = ranks[2].c.words;
        EXPECT_EQ(first, ranks[2].c.words);
    }
}

TEST(SimAgGemm, CountsPayloadBytesByLink) {
    const CaseResult result = run_case<TwoNodes>(options_of(1, NetworkContract::Ordered), {200});
    const std::uint64_t shard_bytes = 50 * 72 * 2;
    std::uint64_t node_local = 0, network = 0;
    for (const LinkTraffic& link : result.last.links) {
        EXPECT_EQ(link.bytes, link.network ? shard_bytes : 2 * shard_bytes) << link.from << " to " << link.to;
        EXPECT_EQ(link.network, link.from / 2 != link.to / 2);
        (link.network ? network : node_local) += link.bytes;
    }
    EXPECT_EQ(network, 4 * shard_bytes);     // each shard crosses the network once
    EXPECT_EQ(node_local, 8 * shard_bytes);  // and then spreads
}

TEST(SimAgGemm, TwoClustersLiveInOneProcess) {
    SimCluster one(small_cluster(2, 2, 3), options_of(1, NetworkContract::Ordered)),
        two(small_cluster(1, 2, 2), options_of(2, NetworkContract::Ordered));
    Random random(4);
    for (int launch = 0; launch < 2; ++launch) {
        std::vector<RankBuffers<TwoNodes>> a;
        std::vector<RankBuffers<OneNode>> b;
        fill_case<TwoNodes>(a, 100, random);
        fill_case<OneNode>(b, 90, random);
        one.launch(ag_gemm_artifact<TwoNodes>(), {AgGemm<TwoNodes, Fault::None>::entry, nullptr}, 100,
                   tensors_of<TwoNodes>(a));
        two.launch(ag_gemm_artifact<OneNode>(), {AgGemm<OneNode, Fault::None>::entry, nullptr}, 90,
                   tensors_of<OneNode>(b));
        EXPECT_LE(worst_error<TwoNodes>(a, 100), 1.0);
        EXPECT_LE(worst_error<OneNode>(b, 90), 1.0);
    }
    EXPECT_EQ(one.launches(), 2u);
}

TEST(SimAgGemm, TakesOneInputTensorForAllRanks) {
    SimCluster cluster(small_cluster(1, 2, 2), options_of(1, NetworkContract::Ordered));
    Random random(4);
    std::vector<RankBuffers<OneNode>> ranks;
    fill_case<OneNode>(ranks, 100, random);
    std::vector<RankTensors> tensors = tensors_of<OneNode>(ranks);
    tensors[1][1] = tensors[0][1];
    ranks[1].b = ranks[0].b;
    cluster.launch(ag_gemm_artifact<OneNode>(), {AgGemm<OneNode, Fault::None>::entry, nullptr}, 100, tensors);
    EXPECT_LE(worst_error<OneNode>(ranks, 100), 1.0);
    tensors[1][2] = tensors[0][2];
    EXPECT_THROW(
        cluster.launch(ag_gemm_artifact<OneNode>(), {AgGemm<OneNode, Fault::None>::entry, nullptr}, 100, tensors),
        ArgumentError);
}

}  // namespace
}  // namespace plait::testing
