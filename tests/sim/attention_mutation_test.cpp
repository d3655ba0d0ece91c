// Every ordering call of attention's plans is needed: see mutation_test.cpp. The schedules share their calls: a call is
// needed where its mutant dies in any of them.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "runtime/base/error.h"
#include "tests/compiler/verify/plan_edit.h"
#include "tests/sim/attention_harness.h"
#include "tests/sim/mutants.h"

namespace plait::testing {
namespace {

constexpr int kSeeds = 5;

// Several tiles a CTA and more key blocks than stages, so that every ring comes round.
std::string fault_of(const AttentionKernel& kernel, int seed) {
    SimOptions options;
    options.seed = std::uint64_t(seed);
    options.max_steps = 3'000'000;
    const AttentionOutcome outcome = run_attention(kernel, {{130, 400, 1}, {70, 200, 1}}, options, std::uint64_t(seed));
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

// Blocks of 64 keys: seven of them where a row sees 400, so that slots released within a tile are filled again within it.
AttentionAttributes short_blocks(std::int64_t offset) {
    AttentionAttributes attributes = causal(offset);
    attributes.key_block = 64;
    return attributes;
}

std::vector<AttentionRequest> requests() {
    const auto knobs = [](const char* overlap, const char* turn, const char* consumers = "2") {
        return std::vector<std::pair<std::string, std::string>>{
            {"consumer_warpgroups", consumers}, {"overlap", overlap}, {"turn", turn}};
    };
    std::vector<AttentionRequest> list = {{64, 2, 1, short_blocks(300), true, knobs("operands", "on")},
                                          {64, 2, 1, short_blocks(300), true, knobs("products", "off")},
                                          {64, 1, 1, short_blocks(300), true, knobs("joint", "on")},
                                          {64, 1, 1, short_blocks(300), true, knobs("serial", "off")},
                                          {64, 1, 1, short_blocks(300), true, knobs("serial", "off", "3")}};
    for (AttentionRequest& request : list) request.sms = 1;
    return list;
}

// Whether it concerns blocks that a consumer passes over. Three consumers do; all their other calls are those of two.
bool is_skip(Plan plan, const Mutant& mutant) {
    const std::vector<Statement>* list = program_body(&plan, mutant.program);
    for (const int i : mutant.path) {
        const Statement& s = (*list)[std::size_t(i)];
        if (s.op == Op::For && s.expr("to") == Expr("blocks - seen")) return true;
        list = &s.body;
    }
    return false;
}

// Calls that another call of the same plans implies, and why. Each stands so that its edge holds by itself: a loader that
// loads in another order, or a second stage of queries, would need it.
const std::map<std::string, std::string> kImplied = {
    // The slot of a tile's last values is filled again by the second values of the next tile, behind its third keys, whose
    // slot is free only after scores that the consumer computes after this wait.
    {"move earlier compute_consumer barrier_arrive bar=v_empty[value.slot] edge=v_free #3", "keys of the next tile"},
    {"move later compute_consumer mma_wait pending=0 #4", "keys of the next tile"},
    // A tile's first keys, and its words in the ring, come behind the queries, and those behind every use of the tile before.
    {"move later compute_loader barrier_wait bar=k_empty[key.slot] edge=k_free #0", "q_empty"},
    {"remove compute_loader barrier_wait bar=k_empty[key.slot] edge=k_free #0", "q_empty"},
    {"move later compute_loader barrier_wait bar=tile_empty[ring.slot] edge=tile_free #0", "q_empty"},
    {"remove compute_loader barrier_wait bar=tile_empty[ring.slot] edge=tile_free #0", "q_empty"},
    // Blocks that are passed over come first in a tile. Their slots are filled behind the queries and the keys before them,
    // hence behind every product of the tile before: released early, they free nothing that is read.
    {"skip: move earlier compute_consumer barrier_arrive bar=k_empty[key.slot] edge=k_free #0", "q_empty"},
    {"skip: move earlier compute_consumer barrier_arrive bar=v_empty[value.slot] edge=v_free #0", "q_empty"},
    {"skip: move later compute_consumer barrier_wait bar=k_full[key.slot] edge=k_loaded #0", "q_empty"},
    {"skip: move later compute_consumer barrier_wait bar=v_full[value.slot] edge=v_loaded #0", "q_empty"},
    {"skip: remove compute_consumer barrier_wait bar=k_full[key.slot] edge=k_loaded #0", "q_empty"},
    {"skip: remove compute_consumer barrier_wait bar=v_full[value.slot] edge=v_loaded #0", "q_empty"},
    // Consumers read the last word only after they have waited for the queries, which the loader asks for after it.
    {"move earlier compute_loader barrier_arrive bar=tile_full[ring.slot] edge=tile #1", "q_full"},
};

TEST(AttentionMutation, EveryOrderingCallIsNeeded) {
    std::map<std::string, std::string> survivors;  // key -> where it was met first
    std::map<std::string, bool> dead;
    std::size_t tried = 0;
    for (const AttentionRequest& request : requests()) {
        const AttentionKernel base = build_attention(request);
        for (int seed = 1; seed <= kSeeds; ++seed) ASSERT_EQ(fault_of(base, seed), "") << request.knobs[1].second << " seed " << seed;
        for (const Mutant& mutant : enumerate_mutants(base.plan)) {
            const bool skip = is_skip(base.plan, mutant);
            const std::string key = (skip ? "skip: " : "") + mutant.key;
            if (dead[key] || skip != (request.knobs[0].second == "3")) continue;
            ++tried;
            if (dies(base, mutant))
                dead[key] = true, survivors.erase(key);
            else
                survivors.emplace(key, request.knobs[1].second + ": " + mutant.what);
        }
    }
    const auto died = std::count_if(dead.begin(), dead.end(), [](const auto& d) { return d.second; });
    std::printf("%zu mutants run: %zd distinct ones died, %zu survived\n", tried, static_cast<ssize_t>(died), survivors.size());
    EXPECT_GT(died, 60);
    for (const auto& [key, why] : kImplied)
        EXPECT_EQ(survivors.erase(key), 1u) << key << " dies, or is no mutant any more: take it out of the list of " << why;
    std::string list;
    for (const auto& [key, where] : survivors) list += "\n  " + key + "   (" + where + ")";
    EXPECT_TRUE(survivors.empty()) << "mutants that no seed noticed:" << list;
}

// Faults that no rule of order forbids by itself: what the simulation sees of them.
TEST(AttentionFaults, AreFound) {
    // Some rows end at the diagonal, some at the last key.
    AttentionRequest request{64, 2, 1, short_blocks(300), true, {{"consumer_warpgroups", "2"}, {"overlap", "products"}}};
    request.sms = 1;
    const AttentionKernel base = build_attention(request);
    const auto move = [](Op op, int n, Op before) {
        return [=](Plan* plan) {
            int count = 0;
            each(program_body(plan, "compute_consumer"), op, [&](auto* list, std::size_t i) {
                if (count++ < n) return false;
                std::size_t to = i;
                while (to > 0 && (*list)[to].op != before) --to;
                if ((*list)[to].op != before) throw std::runtime_error("nothing to move past");
                const Statement moved = (*list)[i];
                list->erase(list->begin() + long(i));
                list->insert(list->begin() + long(to), moved);
                return true;
            });
        };
    };
    const auto change = [](Op op, const char* operand, const char* more) {
        return [=](Plan* plan) {
            each(program_body(plan, "compute_consumer"), op, [&](auto* list, std::size_t i) {
                for (Operand& o : (*list)[i].operands) {
                    if (o.name == operand) o.expr = Expr("(" + o.expr.print() + ") " + more);
                }
                return false;
            });
        };
    };
    const std::vector<std::pair<std::string, std::function<void(Plan*)>>> faults = {
        {"operand written while a product reads it", move(Op::AsOperand, 1, Op::MmaWait)},
        {"slot of keys released before its product is waited for", move(Op::BarrierArrive, 1, Op::MmaWait)},
        {"a neighbour's rows stored", change(Op::StoreBox, "y", "- 64")},
        {"a neighbour's log-sum-exp stored", change(Op::StoreLogSumExp, "index", "- 1")},
        {"mask one key too far", change(Op::MaskCols, "diagonal", "+ 1")},
        {"mask one key too near", change(Op::MaskCols, "diagonal", "- 1")},
        {"one key beyond the last", change(Op::MaskCols, "cols", "+ 1")},
        {"one key too few", change(Op::MaskCols, "cols", "- 1")},
    };
    for (const auto& [name, plant] : faults) {
        AttentionKernel kernel = base;
        plant(&kernel.plan);
        compile_attention(kernel);
        bool found = false;
        for (int seed = 1; seed <= kSeeds && !found; ++seed) found = !fault_of(kernel, seed).empty();
        EXPECT_TRUE(found) << name;
    }
}

}  // namespace
}  // namespace plait::testing
