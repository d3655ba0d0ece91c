// Every ordering call of the Plan is needed: remove it, narrow its scope or move it past what it orders, and some seed
// of the simulation must notice. Plans of several topologies and placements share their calls: a call is needed where
// its mutant dies in any of them. A survivor means: delete the call, or mend the simulation. Exceptions stand in
// mutation_exceptions.txt, each with its argument from the memory model; the length of that list is asserted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

#include "runtime/base/error.h"
#include "tests/sim/harness.h"
#include "tests/sim/mutants.h"

namespace plait::testing {
namespace {

constexpr std::size_t kExceptions = 1;
constexpr int kSeeds = 12;

std::vector<std::string> exceptions() {
    std::ifstream file(std::string(PLAIT_SOURCE_DIR) + "/tests/sim/mutation_exceptions.txt");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);)
        if (!line.empty() && line[0] != '#') lines.push_back(line.substr(0, line.find("  # ")));
    return lines;
}

// M changes from launch to launch, also to fewer rows than ranks: then nothing but the launch protocol orders the
// launches of two ranks. Rings are small enough to come round.
std::string fault_of(const Kernel& kernel, int seed) {
    SimOptions options;
    options.seed = seed;
    options.network = seed % 2 ? NetworkContract::Unordered : NetworkContract::Ordered;
    options.fifo_slots = 2, options.arrival_slots = 2, options.send_queue_depth = 2;
    options.max_steps = 3'000'000;
    const std::int64_t m = kernel.c.m;
    const Outcome outcome = run(kernel, {m, 3, m, 1, m}, options);
    return !outcome.fault.empty() ? outcome.fault : outcome.worst <= 1.0 ? "" : "wrong result";
}

bool dies(const Kernel& base, const Mutant& mutant) {
    Kernel kernel = base;
    kernel.plan = apply(base.plan, mutant);
    try {
        compile_case(kernel);
    } catch (const Error&) {
        return true;
    }
    for (int seed = 1; seed <= kSeeds; ++seed)
        if (!fault_of(kernel, seed).empty()) return true;
    return false;
}

std::vector<Case> cases() {
    const std::map<std::string, std::string> warp = {{"intra_comm", "warp"}, {"inter_send", "warp"}};
    // one k block and many tiles: the tile ring comes round before the operand ring does
    const std::map<std::string, std::string> shallow = {{"stages", "4"}, {"chunk_rows", "16"}};
    return {
        {"phase_2x2", "2x2", 200, 136, 136, {}, {"bias"}},
        {"shallow_2x2", "2x2", 136, 328, 64, shallow, {}},
        {"warp_2x2", "2x2", 200, 136, 136, warp, {}},
        {"phase_2x1", "2x1", 140, 136, 72, shallow, {}},
        {"phase_1x3", "1x3", 150, 136, 136, {}, {}},
        {"clusters", "1x1", 200, 136, 264, {{"cluster", "2"}}, {}, false, false, 0, 4},
    };
}

TEST(Mutation, ExceptionListHasItsStatedLength) { EXPECT_EQ(exceptions().size(), kExceptions); }

TEST(Mutation, EveryOrderingCallIsNeeded) {
    std::map<std::string, std::string> survivors;   // key -> where it was met first
    std::map<std::string, bool> dead;
    const std::vector<std::string> known = exceptions();
    std::size_t tried = 0;
    for (const Case& c : cases()) {
        const Kernel base = build(c);
        for (int seed = 1; seed <= kSeeds; ++seed) ASSERT_EQ(fault_of(base, seed), "") << c.name << " seed " << seed;
        for (const Mutant& mutant : enumerate_mutants(base.plan)) {
            if (dead[mutant.key] || std::find(known.begin(), known.end(), mutant.key) != known.end()) continue;
            ++tried;
            if (dies(base, mutant)) dead[mutant.key] = true, survivors.erase(mutant.key);
            else survivors.emplace(mutant.key, c.name + ": " + mutant.what);
        }
    }
    const auto died = std::count_if(dead.begin(), dead.end(), [](const auto& d) { return d.second; });
    std::printf("%zu mutants run: %zd distinct ones died, %zu survived, %zu excepted\n", tried, static_cast<ssize_t>(died),
                survivors.size(), known.size());
    EXPECT_GT(died, 60);
    std::string list;
    for (const auto& [key, where] : survivors) list += "\n  " + key + "   (" + where + ")";
    EXPECT_TRUE(survivors.empty()) << "mutants that no seed noticed:" << list;
}

}  // namespace
}  // namespace plait::testing
