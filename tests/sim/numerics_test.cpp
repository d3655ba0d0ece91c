// Tuning never changes a bit of the result on one machine: tiles, stages, placements, order and network are free of the
// numerics, which are the graph's.
#include <gtest/gtest.h>

#include "tests/sim/harness.h"

namespace plait::testing {
namespace {

std::uint64_t digest(const Case& c, std::uint64_t seed) {
    const Kernel kernel = build(c);
    SimOptions options;
    options.seed = seed;      // the inputs follow from it as well
    options.network = NetworkContract::Unordered;
    const Outcome outcome = run(kernel, {c.m}, options);
    EXPECT_TRUE(outcome.ok()) << c.name << ": " << outcome.fault << ", worst " << outcome.worst;
    return outcome.digest;
}

TEST(Numerics, EverySchedulePrintsTheSameBits) {
    const auto with = [](std::map<std::string, std::string> knobs) {
        Case c{"bits", "2x2", 300, 200, 328, std::move(knobs), {"bias", "gelu"}};
        c.sms = 5;
        return c;
    };
    const std::uint64_t expected = digest(with({}), 5);
    EXPECT_NE(expected, digest(with({}), 6)) << "the digest does not depend on the data";
    const std::vector<std::map<std::string, std::string>> schedules = {
        {{"tile_m", "128"}, {"consumer_warpgroups", "2"}, {"tile_n", "128"}},
        {{"tile_n", "192"}, {"stages", "3"}},
        {{"stages", "4"}, {"raster_group", "1"}},
        {{"order", "rank"}, {"chunk_rows", "8"}},
        {{"intra_comm", "warp"}, {"inter_send", "warp"}},
        {{"intra_comm", "sms"}, {"inter_send", "sms"}},
        {{"intra_comm_sms", "3"}, {"inter_send_sms", "2"}, {"piece_bytes", "2048"}},
    };
    for (const auto& knobs : schedules) {
        std::string text;
        for (const auto& [name, value] : knobs) text += name + "=" + value + " ";
        EXPECT_EQ(digest(with(knobs), 5), expected) << text;
    }
}

}  // namespace
}  // namespace plait::testing
