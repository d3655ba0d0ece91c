// The winners at shapes that were measured (docs/results), and what the choice leaves alone.
#include "compiler/choose/choose_schedule.h"

#include <gtest/gtest.h>

#include "compiler/choose/tile_cost.h"
#include "tests/compiler/passes/attention_request.h"
#include "tests/compiler/passes/request.h"

namespace plait::testing {
namespace {

using Sizes = std::array<std::int64_t, 3>;  // M N K

Chosen choose(Sizes s, bool transpose_b = false, std::vector<std::pair<std::string, std::string>> knobs = {},
              std::vector<std::string> pointwise = {}, std::int64_t m = 0) {
    TestRequest r{"1x1", std::move(knobs), std::move(pointwise), {s[0], s[1], s[2]}, false, transpose_b};
    return choose_schedule(r.graph(), r.schedule(), r.problem, r.cluster(), r.target(), m);
}

std::string tile_of(const Schedule& s) {
    return std::to_string(s.integer("tile_m")) + "x" + std::to_string(s.integer("tile_n"));
}

TEST(ChooseSchedule, PicksTheMeasuredWinners) {
    for (bool nt : {false, true}) {
        EXPECT_EQ(tile_of(choose({2048, 2048, 2048}, nt).schedule), "128x256");
        EXPECT_EQ(tile_of(choose({4096, 4096, 4096}, nt).schedule), "128x256");
        EXPECT_EQ(tile_of(choose({8192, 4096, 8192}, nt).schedule), "128x256");
        EXPECT_EQ(tile_of(choose({512, 8192, 14336}, nt).schedule), "128x256");
        EXPECT_EQ(tile_of(choose({2048, 8192, 14336}, nt).schedule), "128x256");
        EXPECT_EQ(tile_of(choose({512, 14336, 8192}, nt).schedule), "128x224");
        EXPECT_EQ(tile_of(choose({2048, 14336, 8192}, nt).schedule), "256x176");
        EXPECT_EQ(tile_of(choose({16384, 8192, 16384}, nt).schedule), "256x192");
        EXPECT_EQ(tile_of(choose({16384, 16384, 16384}, nt).schedule), "256x192");
    }
}

TEST(ChooseSchedule, RasterFollowsTheShapeOfAWave) {
    EXPECT_EQ(choose({4096, 4096, 4096}).schedule.integer("raster_group"), 16);
    EXPECT_EQ(choose({16384, 16384, 16384}).schedule.integer("raster_group"), 8);
    EXPECT_EQ(choose({512, 14336, 8192}).schedule.integer("raster_group"), 4) << "no more than the four row tiles there are";
    EXPECT_EQ(choose({4096, 4096, 4096}, false, {{"raster_group", "3"}}).schedule.integer("raster_group"), 3);
}

TEST(ChooseSchedule, RowsOfTheLaunchCountNotTheMaximum) {
    const Chosen few = choose({16384, 14336, 8192}, false, {}, {}, 512);
    EXPECT_EQ(tile_of(few.schedule), "128x224");
    EXPECT_NE(few.reason.find("at M = 512 256 tiles fill 1.94 of 2 waves of 132 SMs"), std::string::npos) << few.reason;
}

TEST(ChooseSchedule, SaysWhatItComparedWith) {
    const Chosen chosen = choose({2048, 14336, 8192});
    EXPECT_NE(chosen.reason.find("tile 256 x 176, 3 stages of 64, 2 consumer warpgroups, raster 8"), std::string::npos) << chosen.reason;
    EXPECT_NE(chosen.reason.find("% more (896 tiles fill 6.79 of 7 waves)"), std::string::npos) << chosen.reason;
}

TEST(ChooseSchedule, GivenTileKnobsStay) {
    for (const char* knob : {"tile_m", "tile_n", "stages", "consumer_warpgroups"}) {
        const std::string value = knob == std::string("tile_m") ? "256" : knob == std::string("tile_n") ? "128" : "2";
        const Chosen chosen = choose({512, 14336, 8192}, false, {{knob, value}});
        EXPECT_EQ(std::to_string(chosen.schedule.integer(knob)), value);
        EXPECT_EQ(chosen.reason, "the schedule's own tile");
    }
}

TEST(ChooseSchedule, GatheredRowsKeepTheDefaultNoWiderThanTheOutput) {
    TestRequest r{"1x2", {}, {}, {4096, 72, 4096}};
    const Chosen chosen = choose_schedule(r.graph(), r.schedule(), r.problem, r.cluster(), r.target());
    EXPECT_EQ(tile_of(chosen.schedule), "128x128");
    EXPECT_NE(chosen.reason.find("rows arrive from peers"), std::string::npos) << chosen.reason;
}

TEST(ChooseSchedule, EveryChoiceVerifies) {
    for (std::int64_t m : {1, 100, 300, 1000, 5000}) {
        for (std::int64_t n : {8, 264, 1000, 6000}) {
            for (const std::vector<std::string>& ops : {std::vector<std::string>{}, {"bias", "gelu"}}) {
                TestRequest r{"1x1", {}, ops, {m, n, 520}, false};
                EXPECT_NO_THROW(r.plan()) << m << " " << n;
            }
        }
    }
}

Chosen choose(AttentionRequest r, std::int64_t m_max) {
    r.m_max = m_max;
    const Target target = Target::make("sm_90a", Topology::simulated("1x1"));
    return choose_schedule(r.graph(), r.schedule(), r.problem(), Topology::simulated("1x1"), target);
}

TEST(ChooseAttention, TakesTheWarpgroupsThatFitIntoRegisters) {
    for (const auto& [head_dim, consumers] : {std::pair{64, 3}, {128, 2}, {256, 2}}) {
        const Chosen chosen = choose(AttentionRequest{head_dim, 8, 8}, 4096);
        EXPECT_EQ(chosen.schedule.integer("consumer_warpgroups"), consumers) << head_dim;
        EXPECT_NE(chosen.reason.find("registers a thread"), std::string::npos) << chosen.reason;
    }
}

TEST(ChooseAttention, TakesNoMoreThanThereAreRows) {
    const Chosen one = choose(AttentionRequest{64, 8, 8}, 1), two = choose(AttentionRequest{64, 8, 8}, 100);
    EXPECT_EQ(one.schedule.integer("consumer_warpgroups"), 1);
    EXPECT_EQ(two.schedule.integer("consumer_warpgroups"), 2);
    EXPECT_NE(one.reason.find("M = 1 has no more rows"), std::string::npos) << one.reason;
}

TEST(ChooseAttention, ASecondSetOfWeightsTakesRegistersToo) {
    AttentionRequest packed{64, 8, 8}, short_blocks{128, 8, 8};
    packed.knobs = {{"overlap", "operands"}};
    short_blocks.attributes.key_block = 64;
    EXPECT_EQ(choose(packed, 4096).schedule.integer("consumer_warpgroups"), 2);
    EXPECT_EQ(choose(short_blocks, 4096).schedule.integer("consumer_warpgroups"), 2);
}

TEST(ChooseAttention, GivenRowsStay) {
    AttentionRequest request{64, 8, 8};
    request.knobs = {{"tile_m", "64"}};
    EXPECT_FALSE(choose(request, 4096).schedule.is_set("consumer_warpgroups"));
}

TEST(TileCost, AStepAboveAMultipleCostsNoMoreThanTheNextMultiple) {
    const Target target = Target::make("sm_90a", Topology::simulated("1x1"));
    const Tile tile{128, 256, 4, 2, 2};
    const auto cost = [&](Sizes s) { return tile_cost({s[0], s[1], s[2]}, tile, target).cycles; };
    EXPECT_NEAR(cost({2049, 4096, 4096}) / cost({2176, 4096, 4096}), 1, 0.005);
    EXPECT_LE(cost({4096, 4096, 4128}), cost({4096, 4096, 4160}));
    EXPECT_GT(cost({4096, 4096, 4096}) * 1.5, cost({4224, 4096, 4096}));
}

// One warpgroup waits alone for its products; two blocks a stage halve that (docs/results).
TEST(ChooseSchedule, FewRowsTakeOneWarpgroupAndDeepStages) {
    const Chosen deep = choose({128, 4096, 8192}, true), odd = choose({128, 4096, 8000}, true);
    EXPECT_EQ(tile_of(deep.schedule), "64x64");
    EXPECT_EQ(deep.schedule.integer("tile_k"), 128);
    EXPECT_EQ(odd.schedule.integer("tile_k"), 64) << "125 blocks";
}

// 128-byte rows whose pitch is 16 bytes off the grid of sectors load at two thirds of the speed (docs/results): a cluster
// loads fewer of them. Where rows lie on the grid, clusters do not pay.
TEST(ChooseSchedule, RowsOffTheSectorGridTakeClusters) {
    const Chosen on = choose({4224, 8448, 4096}, true), off = choose({4224, 8448, 4104}, true);
    EXPECT_EQ(on.schedule.integer("cluster"), 1);
    EXPECT_EQ(tile_of(on.schedule), "192x176");
    EXPECT_EQ(off.schedule.integer("cluster"), 2);
    EXPECT_NE(off.reason.find("clusters along"), std::string::npos) << off.reason;
}

TEST(ChooseSchedule, AGivenClusterStays) {
    EXPECT_EQ(choose({4224, 8448, 4104}, true, {{"cluster", "1"}}).schedule.integer("cluster"), 1);
    const Chosen chosen = choose({4224, 8448, 4096}, true, {{"cluster", "2"}, {"cluster_along", "m"}});
    EXPECT_EQ(chosen.schedule.integer("cluster"), 2);
    EXPECT_EQ(chosen.schedule.word("cluster_along"), "m");
}

TEST(TileCost, MoreSmsNeverCostMore) {
    Target few = Target::make("sm_90a", Topology::simulated("1x1")), many = few;
    few.sms = 100;
    for (std::int64_t m : {100, 3000, 9000})
        EXPECT_GE(tile_cost({m, 4096, 4096}, Tile{}, few).cycles, tile_cost({m, 4096, 4096}, Tile{}, many).cycles) << m;
}

}  // namespace
}  // namespace plait::testing
