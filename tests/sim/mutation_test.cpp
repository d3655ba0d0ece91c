// Every ordering call of the Plan is needed: remove it, narrow its scope or move it past its neighbour, and some seed
// of the simulation must notice. A survivor means: delete the call, or mend the simulation. Exceptions stand in
// mutation_exceptions.txt, each with its argument from the memory model; the length of that list is asserted.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "runtime/base/error.h"
#include "tests/sim/harness.h"
#include "tests/sim/mutants.h"

namespace plait::testing {
namespace {

constexpr std::size_t kExceptions = 0;
constexpr int kSeeds = 6;

std::vector<std::string> exceptions() {
    std::ifstream file(std::string(PLAIT_SOURCE_DIR) + "/tests/sim/mutation_exceptions.txt");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);)
        if (!line.empty() && line[0] != '#') lines.push_back(line.substr(0, line.find("  #")));
    return lines;
}

bool dies(const Kernel& base, const Mutant& mutant) {
    Kernel kernel = base;
    kernel.plan = apply(base.plan, mutant);
    try {
        compile_case(kernel);
    } catch (const Error&) {
        return true;
    }
    for (int seed = 1; seed <= kSeeds; ++seed) {
        const NetworkContract network = seed % 2 ? NetworkContract::Ordered : NetworkContract::Unordered;
        if (!run(kernel, seed, network, 4).ok()) return true;
    }
    return false;
}

void expect_all_die(const Case& c) {
    const Kernel base = build(c);
    for (int seed = 1; seed <= kSeeds; ++seed)
        ASSERT_EQ(run(base, seed, seed % 2 ? NetworkContract::Ordered : NetworkContract::Unordered, 4).fault, "") << "seed " << seed;
    const std::vector<std::string> known = exceptions();
    std::size_t died = 0, excepted = 0;
    std::vector<std::string> survivors;
    for (const Mutant& mutant : enumerate_mutants(base.plan)) {
        if (std::find(known.begin(), known.end(), c.name + ": " + mutant.what) != known.end()) ++excepted;
        else if (dies(base, mutant)) ++died;
        else survivors.push_back(mutant.what);
    }
    std::printf("%s: %zu mutants died, %zu survived, %zu excepted\n", c.name.c_str(), died, survivors.size(), excepted);
    EXPECT_GT(died, 20u);
    std::string list;
    for (const std::string& s : survivors) list += "\n  " + c.name + ": " + s;
    EXPECT_TRUE(survivors.empty()) << "mutants that no seed noticed:" << list;
}

TEST(Mutation, ExceptionListHasItsStatedLength) { EXPECT_EQ(exceptions().size(), kExceptions); }

TEST(Mutation, EveryOrderingCallOfTwoNodesTwoRanksPhaseIsNeeded) {
    expect_all_die({"phase_2x2", "2x2", 200, 136, 136, {}, {"bias"}});
}

TEST(Mutation, EveryOrderingCallOfTwoNodesTwoRanksWarpIsNeeded) {
    expect_all_die({"warp_2x2", "2x2", 200, 136, 136, {{"intra_comm", "warp"}, {"inter_send", "warp"}}, {}});
}

}  // namespace
}  // namespace plait::testing
