// Every ordering call of attention's plans is needed: see mutation_test.cpp. The schedules share their calls: a call is
// needed where its mutant dies in any of them.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "runtime/base/error.h"
#include "tests/sim/attention_harness.h"
#include "tests/sim/mutants.h"

namespace plait::testing {
namespace {

constexpr int kSeeds = 8;

// Several tiles a CTA and more key blocks than stages, so that every ring comes round.
std::string fault_of(const AttentionKernel& kernel, int seed) {
    SimOptions options;
    options.seed = std::uint64_t(seed);
    options.max_steps = 3'000'000;
    const AttentionOutcome outcome = run_attention(kernel, {{130, 270, 1}, {70, 200, 1}}, options, std::uint64_t(seed));
    return !outcome.fault.empty() ? outcome.fault : outcome.worst <= 1.0 ? "" : "wrong result";
}

bool dies(const AttentionKernel& base, const Mutant& mutant) {
    AttentionKernel kernel = base;
    kernel.plan = apply(base.plan, mutant);
    try {
        compile_attention(kernel);
    } catch (const Error&) {
        return true;
    }
    for (int seed = 1; seed <= kSeeds; ++seed)
        if (!fault_of(kernel, seed).empty()) return true;
    return false;
}

std::vector<AttentionRequest> requests() {
    const auto knobs = [](const char* overlap, const char* turn) {
        return std::vector<std::pair<std::string, std::string>>{
            {"consumer_warpgroups", "2"}, {"overlap", overlap}, {"turn", turn}};
    };
    std::vector<AttentionRequest> list = {{64, 2, 1, causal(), true, knobs("operands", "on")},
                                          {128, 2, 1, {}, true, knobs("products", "off")},
                                          {64, 2, 1, causal(), true, knobs("serial", "off")}};
    for (AttentionRequest& request : list) request.sms = 1;
    return list;
}

TEST(AttentionMutation, EveryOrderingCallIsNeeded) {
    std::map<std::string, std::string> survivors;  // key -> where it was met first
    std::map<std::string, bool> dead;
    std::size_t tried = 0;
    for (const AttentionRequest& request : requests()) {
        const AttentionKernel base = build_attention(request);
        for (int seed = 1; seed <= kSeeds; ++seed) ASSERT_EQ(fault_of(base, seed), "") << request.knobs[1].second << " seed " << seed;
        for (const Mutant& mutant : enumerate_mutants(base.plan)) {
            if (dead[mutant.key]) continue;
            ++tried;
            if (dies(base, mutant))
                dead[mutant.key] = true, survivors.erase(mutant.key);
            else
                survivors.emplace(mutant.key, request.knobs[1].second + ": " + mutant.what);
        }
    }
    const auto died = std::count_if(dead.begin(), dead.end(), [](const auto& d) { return d.second; });
    std::printf("%zu mutants run: %zd distinct ones died, %zu survived\n", tried, static_cast<ssize_t>(died), survivors.size());
    EXPECT_GT(died, 60);
    std::string list;
    for (const auto& [key, where] : survivors) list += "\n  " + key + "   (" + where + ")";
    EXPECT_TRUE(survivors.empty()) << "mutants that no seed noticed:" << list;
}

}  // namespace
}  // namespace plait::testing
