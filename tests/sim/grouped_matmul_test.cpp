// Grouped matmul in simulation: segments of every kind under many seeds, both layouts of the weights, sorted rows and rows
// gathered from one memory and from two; tables and indices that are wrong; faults planted in the plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "tests/sim/grouped_matmul_case.h"
#include "tests/sim/same_bits.h"
#include "tests/sim/mutants.h"

namespace plait::testing {
namespace {

using Counts = std::vector<std::int64_t>;
const std::map<std::string, std::string> kLargeTile = {{"tile_m", "128"}, {"consumer_warpgroups", "2"}, {"tile_n", "128"}, {"stages", "4"}};

// Ends of segments that meet tiles of 64 and 128 in every way.
const std::vector<Counts> kTables = {
    {65, 0, 64, 1, 127, 63}, {0, 0, 200, 0}, {300}, {0, 0, 0}, {1, 1, 1, 1, 1, 1, 1, 1}, {0, 130, 0, 70}, {128, 128, 129}, {5, 0, 0, 0, 0}};

std::vector<GroupedCase> cases() {
    return {
        {"sorted_nk"},
        {"sorted_kn", 136, 72, false, 0, 0, kLargeTile},
        {"large_tile", 200, 328, true, 0, 0, kLargeTile, {"residual", "relu"}},
        {"one_warpgroup_of_128", 72, 72, true, 0, 0, {{"tile_m", "128"}, {"consumer_warpgroups", "1"}}},
        {"one_base", 72, 136, true, 90},
        {"two_bases_kn", 136, 72, false, 50, 33, kLargeTile},
        {"two_bases_deep", 72, 456, true, 31, 70, {{"stages", "4"}}, {"scale"}},
    };
}

class GroupedMatmul : public ::testing::TestWithParam<GroupedCase> {};

TEST_P(GroupedMatmul, EveryElementIsRightUnderEverySeed) {
    const GroupedKernel kernel = build_grouped(GetParam());
    for (std::size_t i = 0; i < kTables.size(); ++i) {
        for (std::uint64_t seed = 1; seed <= 5; ++seed)
            ASSERT_EQ(launch_grouped(kernel, kTables[i], seed + 10 * i), "") << "table " << i << ", seed " << seed + 10 * i;
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, GroupedMatmul, ::testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

// Two hundred in all, half of each form. Seeds differ from launch to launch, the operands do not.
void expect_same_bits_of_grouped(bool gathers) {
    Draw draw(gathers ? 12 : 11);
    const auto knobs = [](Draw& d) {
        const std::int64_t consumers = d.among(1, 3);
        return Knobs{{"consumer_warpgroups", std::to_string(consumers)},
                     {"tile_m", std::to_string(64 * consumers * d.among(1, consumers == 2 ? 2 : 1))},
                     {"tile_n", std::to_string(d.among(64, 256, 64))},
                     {"stages", std::to_string(d.among(2, 6))},
                     {"raster_group", std::to_string(d.among(1, 8))},
                     {"output_boxes", std::to_string(d.among(2, 4, 2))}};
    };
    expect_same_bits(gathers ? "grouped matmul, gathered rows" : "grouped matmul", 100, draw, knobs,
                     [&](const Knobs& drawn) -> std::optional<std::uint64_t> {
        GroupedKernel kernel;
        try {
            kernel = lower_grouped({"bits", 200, 200, true, gathers ? 100 : 0, gathers ? 40 : 0, drawn});
        } catch (const ScheduleError&) {
            return std::nullopt;
        }
        compile_grouped(kernel);
        GroupedLaunch launch(kernel.c, {65, 0, 64, 1, 127, 63}, 5);
        EXPECT_EQ(launch_grouped(kernel, launch, draw.number(), [](GroupedLaunch&) {}), "");
        std::uint64_t digest = 14695981039346656037u;  // FNV-1a
        for (const std::uint16_t bits : launch.out) digest = (digest ^ bits) * 1099511628211u;
        return digest;
    });
}

TEST(GroupedMatmulBits, AHundredSchedulesPrintTheSame) { expect_same_bits_of_grouped(false); }
TEST(GroupedMatmulBits, AHundredSchedulesOfGatheredRowsPrintTheSame) { expect_same_bits_of_grouped(true); }

// The table is read on the device alone. A wrong one ends the launch, without a hang and inside of all memory, with the
// entry and the numbers.
TEST(GroupedMatmulTable, ThatDoesNotAddUpIsReported) {
    for (const std::int64_t tokens : {0, 90}) {
        const GroupedKernel kernel = build_grouped({"table", 72, 136, true, tokens});
        const auto with = [&](std::vector<std::int32_t> offs) {
            std::string all;
            for (std::uint64_t seed = 1; seed <= 6; ++seed) {
                GroupedLaunch launch(kernel.c, {100, 50, 0, 150}, seed);
                const std::string now = launch_grouped(kernel, launch, seed, [&](GroupedLaunch& l) { l.offs = offs; });
                const std::string what = now.substr(0, now.find(" (read by"));
                if (all.empty()) all = what;
                EXPECT_EQ(what, all) << "seed " << seed;
            }
            return all;
        };
        EXPECT_EQ(with({100, 50, 150, 300}), "ArgumentError: rank 0: offs[1] is 50, it must lie in 100..300");
        EXPECT_EQ(with({100, 150, 150, 299}), "ArgumentError: rank 0: offs[3] is 299, it must lie in 300..300");
        EXPECT_EQ(with({100, 150, 150, 301}), "ArgumentError: rank 0: offs[3] is 301, it must lie in 300..300");
        EXPECT_EQ(with({-1, 150, 150, 300}), "ArgumentError: rank 0: offs[0] is -1, it must lie in 0..300");
        EXPECT_EQ(with({100, 150, 2147483647, 300}), "ArgumentError: rank 0: offs[2] is 2147483647, it must lie in 150..300");
    }
}

TEST(GroupedMatmulTable, RowIndexThatNamesNoRowIsReported) {
    const GroupedKernel kernel = build_grouped({"index", 72, 136, true, 50, 33});
    for (const auto& [index, low_high] : std::map<std::int32_t, std::string>{{83, "0..82"}, {-1, "0..82"}, {1 << 30, "0..82"}}) {
        GroupedLaunch launch(kernel.c, {100, 50, 0, 150}, 3);
        const std::string what = launch_grouped(kernel, launch, 3, [&](GroupedLaunch& l) { l.rows[117] = index; });
        EXPECT_EQ(what.substr(0, what.find(" (read by")),
                  "ArgumentError: rank 0: rows[117] is " + std::to_string(index) + ", it must lie in " + low_high);
    }
}

// ---- planted faults

void each(std::vector<Statement>& body, const std::function<void(Statement&)>& use) {
    for (Statement& s : body) use(s), each(s.body, use);
}

GroupedKernel with_fault(const GroupedCase& c, const std::function<void(Statement&)>& spoil) {
    GroupedKernel kernel = lower_grouped(c);
    for (ProgramDef& program : kernel.plan.programs) each(program.body, spoil);
    compile_grouped(kernel);
    return kernel;
}

// What the seeds say of a kernel over tables whose segments end inside of tiles.
std::string any_fault(const GroupedKernel& kernel) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        const std::string fault = launch_grouped(kernel, {65, 1, 62, 64, 72}, seed);
        if (!fault.empty()) return fault;
    }
    return "";
}

void replace(Statement& s, Op op, const std::string& operand, const std::string& from, const std::string& to) {
    if (s.op != op || s.expr(operand) != Expr(from)) return;
    for (Operand& o : s.operands) {
        if (o.name == operand) o.expr = Expr(to);
    }
}

TEST(GroupedMatmulFault, RowOfANeighbourStoredRowByRowIsFound) {
    const GroupedKernel kernel = with_fault({"row"}, [](Statement& s) { replace(s, Op::StoreRows, "rows", "own", "min(64, own + 1)"); });
    EXPECT_NE(any_fault(kernel), "");
}

TEST(GroupedMatmulFault, RowsOfANeighbourStoredByTmaAreFound) {
    const GroupedKernel kernel = with_fault({"box"}, [](Statement& s) {
        replace(s, Op::If, "cond", "own >= 64", "own >= 32");
        replace(s, Op::If, "cond", "own < 64", "own < 32");
    });
    EXPECT_NE(any_fault(kernel), "");
}

TEST(GroupedMatmulFault, RowsBeyondTheSegmentsEndAreFound) {
    const GroupedKernel kernel = with_fault({"valid"}, [](Statement& s) {
        replace(s, Op::Assign, "value", "min(tile_m, end - row)", "min(tile_m, M - row)");
    });
    EXPECT_NE(any_fault(kernel), "");
}

TEST(GroupedMatmulFault, WeightsOfAnotherExpertAreFound) {
    const GroupedKernel kernel = with_fault({"expert"}, [](Statement& s) { replace(s, Op::LoadBoxes, "z", "expert", "max(expert - 1, 0)"); });
    EXPECT_EQ(any_fault(kernel), "wrong result");
}

TEST(GroupedMatmulFault, GatherThatIsAnnouncedTooEarlyIsFound) {
    const GroupedKernel kernel = with_fault({"lag", 72, 456, true, 90}, [](Statement& s) { replace(s, Op::GatherWait, "pending", "lag", "lag + 1"); });
    EXPECT_NE(any_fault(kernel).find("not ordered after the write"), std::string::npos);
}

TEST(GroupedMatmulFault, IndicesBeyondTheSegmentAreFound) {
    const GroupedKernel kernel = with_fault({"count", 72, 136, true, 90}, [](Statement& s) { replace(s, Op::GatherIndex, "count", "rows", "tile_m"); });
    EXPECT_NE(any_fault(kernel).find("outside"), std::string::npos);
}

// Every ordering call of both forms is needed: see mutation_test.cpp for the rule.
TEST(GroupedMatmulFault, EveryOrderingCallIsNeeded) {
    std::map<std::string, bool> dead;
    std::map<std::string, std::string> survivors;
    const std::map<std::string, std::string> deep = {{"stages", "4"}};
    for (const GroupedCase& c : {GroupedCase{"sorted", 136, 136, true, 0, 0, deep}, GroupedCase{"shallow", 328, 64, true, 0, 0, deep},
                                 GroupedCase{"gather", 136, 328, true, 90, 0, deep}, GroupedCase{"shallow_gather", 328, 64, true, 90, 0, deep}}) {
        const GroupedKernel base = lower_grouped(c);
        for (const Mutant& mutant : enumerate_mutants(base.plan)) {
            if (dead[mutant.key]) continue;
            GroupedKernel kernel = base;
            kernel.plan = apply(base.plan, mutant);
            compile_grouped(kernel);
            std::string fault;
            for (std::uint64_t seed = 1; seed <= 12 && fault.empty(); ++seed) fault = launch_grouped(kernel, {130, 65, 0, 40}, seed);
            if (!fault.empty())
                dead[mutant.key] = true, survivors.erase(mutant.key);
            else
                survivors.emplace(mutant.key, c.name + ": " + mutant.what);
        }
    }
    std::printf("%zd mutants died, %zu survived\n", std::count_if(dead.begin(), dead.end(), [](const auto& d) { return d.second; }), survivors.size());
    std::string list;
    for (const auto& [key, where] : survivors) list += "\n  " + key + "   (" + where + ")";
    EXPECT_TRUE(survivors.empty()) << "mutants that no seed noticed:" << list;
}

}  // namespace
}  // namespace plait::testing
