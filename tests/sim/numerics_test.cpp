// Tuning never changes a bit of the result on one machine: tiles, stages, placements, order and network are free of the
// numerics, which are the graph's.
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/sim/harness.h"
#include "tests/sim/same_bits.h"

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
    const std::vector<Knobs> schedules = {
        {{"tile_m", "128"}, {"consumer_warpgroups", "2"}, {"tile_n", "128"}},
        {{"tile_n", "192"}, {"stages", "3"}},
        {{"stages", "4"}, {"raster_group", "1"}},
        {{"tile_k", "128"}},
        {{"order", "rank"}, {"chunk_rows", "8"}},
        {{"intra_comm", "warp"}, {"inter_send", "warp"}},
        {{"intra_comm", "sms"}, {"inter_send", "sms"}},
        {{"intra_comm_sms", "3"}, {"inter_send_sms", "2"}, {"piece_bytes", "2048"}},
    };
    for (const Knobs& knobs : schedules) EXPECT_EQ(digest(with(knobs), 5), expected) << text_of(knobs);
}

// Without communication every knob of the tile is free, clusters and stages of several blocks among them.
TEST(Numerics, TwoHundredSchedulesOfAMatmulPrintTheSameBits) {
    Draw draw(7);
    const auto knobs = [](Draw& d) {
        const std::int64_t consumers = d.among(1, 3);
        return Knobs{{"consumer_warpgroups", std::to_string(consumers)},
                     {"tile_m", std::to_string(64 * consumers * d.among(1, consumers == 2 ? 2 : 1))},
                     {"tile_n", std::to_string(d.among(16, 256, 16))},
                     {"tile_k", std::to_string(d.among(64, 256, 64))},
                     {"stages", std::to_string(d.among(2, 6))},
                     {"raster_group", std::to_string(d.among(1, 8))},
                     {"output_boxes", std::to_string(d.among(2, 4, 2))},
                     {"cluster", d.one_of({"1", "2"})},
                     {"cluster_along", d.one_of({"m", "n"})}};
    };
    expect_same_bits("matmul", 200, draw, knobs, [&](const Knobs& drawn) -> std::optional<std::uint64_t> {
        Case c{"bits", "1x1", 150, 136, 328, drawn, {"bias", "gelu"}, false};
        c.sms = int(draw.among(2, 5));
        Kernel kernel;
        try {
            kernel = lower_case(c);
        } catch (const ScheduleError&) {
            return std::nullopt;
        }
        compile_case(kernel);
        SimOptions options;
        options.seed = 5;  // the inputs follow from it as well
        const Outcome outcome = run(kernel, {c.m}, options);
        EXPECT_TRUE(outcome.ok()) << outcome.fault << ", worst " << outcome.worst;
        return outcome.digest;
    });
}

}  // namespace
}  // namespace plait::testing
