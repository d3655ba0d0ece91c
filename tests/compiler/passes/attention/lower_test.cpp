// What the lowering of attention promises, whatever the request.
#include <gtest/gtest.h>

#include <functional>

#include "compiler/ir/plan_sizes.h"
#include "compiler/ir/text.h"
#include "runtime/base/error.h"
#include "tests/compiler/passes/attention_request.h"

namespace plait::testing {
namespace {

using Knobs = std::vector<std::pair<std::string, std::string>>;

std::int64_t const_of(const Plan& plan, const std::string& name) {
    for (const Constant& c : plan.consts) {
        if (c.name == name) return c.value;
    }
    return -1;
}

void each(const Plan& plan, const std::string& program, const std::function<void(const Statement&, int)>& use) {
    const std::function<void(const std::vector<Statement>&, int)> visit = [&](const std::vector<Statement>& body, int loops) {
        for (const Statement& s : body) use(s, loops), visit(s.body, loops + (s.op == Op::For || s.op == Op::Loop));
    };
    for (const ProgramDef& p : plan.programs) {
        if (p.name == program) visit(p.body, 0);
    }
}

TEST(LowerAttention, EveryHeadDimLayoutMaskAndOverlapVerifies) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
        for (const char* layout : {"bshd", "bhsd"}) {
            for (const bool is_causal : {false, true}) {
                for (const char* overlap : {"auto", "serial", "products", "rescale", "operands", "joint"}) {
                    AttentionRequest r{head_dim, 6, 2, is_causal ? causal() : AttentionAttributes{}, true};
                    r.attributes.layout = layout;
                    r.knobs = {{"overlap", overlap}, {"consumer_warpgroups", "2"}};
                    EXPECT_NO_THROW(r.plan()) << head_dim << " " << layout << " " << is_causal << " " << overlap;
                }
            }
        }
    }
}

TEST(LowerAttention, EveryTileHeightRingTurnAndHeadGroupVerifies) {
    for (const Knobs& knobs : {Knobs{{"tile_m", "64"}}, Knobs{{"tile_m", "128"}, {"turn", "on"}},
                               Knobs{{"tile_m", "192"}, {"turn", "on"}, {"overlap", "products"}}, Knobs{{"stages", "4"}},
                               Knobs{{"head_group", "1"}}, Knobs{{"head_group", "7"}},
                               Knobs{{"overlap", "serial"}, {"turn", "off"}}}) {
        for (const AttentionAttributes& attributes : {AttentionAttributes{}, causal(), causal(-100), causal(1000)}) {
            const AttentionRequest r{64, 4, 2, attributes, false, knobs, 500, 900, 5};
            EXPECT_NO_THROW(r.plan()) << knobs[0].first << " " << knobs[0].second << " offset " << attributes.causal_offset;
        }
    }
}

TEST(LowerAttention, DefaultsFollowTheHeadDim) {
    const auto of = [](std::int64_t head_dim) { return AttentionRequest{head_dim}.plan(); };
    EXPECT_EQ(const_of(of(64), "tile_m"), 192);
    EXPECT_EQ(const_of(of(128), "tile_m"), 128);
    EXPECT_EQ(const_of(of(256), "tile_m"), 128);
    EXPECT_EQ(const_of(of(64), "key_block"), 128);
    EXPECT_EQ(const_of(of(128), "key_block"), 128);
    EXPECT_EQ(const_of(of(256), "key_block"), 64);
    EXPECT_EQ(of(256).consumer_registers, 232);
    EXPECT_EQ(of(64).consumer_registers, 160);
}

// Keys of another rank arrive later in the same tile: the state must outlive a loop over keys.
TEST(LowerAttention, StateIsDeclaredOnceATileOutsideTheLoopsOverKeys) {
    const Plan plan = AttentionRequest{128, 2, 1, causal()}.plan();
    int declared = 0, deepest = 0;
    each(plan, "compute_consumer", [&](const Statement& s, int loops) {
        if (s.op == Op::MmaIssue) deepest = std::max(deepest, loops);
        if (s.op != Op::AccDeclare && s.op != Op::RowDeclare && s.op != Op::PartDeclare && s.op != Op::OperandDeclare) return;
        declared += 1;
        EXPECT_EQ(loops, 1) << s.word("name") << " is declared inside a loop over keys";
    });
    EXPECT_GE(declared, 6);
    EXPECT_EQ(deepest, 2);
}

TEST(LowerAttention, NoStorageDependsOnKeysOrBatch) {
    AttentionRequest few{128, 2, 1, causal()}, many = few;
    many.keys_max = 1 << 20, many.batch_max = 64;
    EXPECT_EQ(shared_memory_bytes(few.plan()), shared_memory_bytes(many.plan()));
    EXPECT_EQ(workspace_bytes(many.plan()), 0u);
    EXPECT_EQ(many.plan().params[0].max, 64);
    EXPECT_EQ(many.plan().params[1].max, 1 << 20);
}

TEST(LowerAttention, TheUnmaskedLoopHasNoMask) {
    const Plan plan = AttentionRequest{128, 2, 1, causal()}.plan();
    int loops_over_keys = 0, masked = 0;
    each(plan, "compute_consumer", [&](const Statement& s, int loops) {
        if (s.op != Op::For || loops != 1) return;
        loops_over_keys += 1;
        for (const Statement& inner : s.body) masked += inner.op == Op::MaskCols;
    });
    EXPECT_EQ(loops_over_keys, 2);
    EXPECT_EQ(masked, 1);
}

TEST(LowerAttention, HostAndGpuRunTheSamePrograms) {
    AttentionRequest host{128, 2, 1, causal()}, gpu = host;
    gpu.arch = "sm_90a", gpu.sms = 132;
    Plan a = host.plan(), b = gpu.plan();
    b.target = a.target;
    EXPECT_EQ(print_plan(a), print_plan(b));
}

TEST(LowerAttention, PlansPrintAndParse) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
        const Plan plan = AttentionRequest{head_dim, 2, 1, causal(-5)}.plan();
        EXPECT_EQ(print_plan(parse_plan(print_plan(plan))), print_plan(plan, false));
    }
}

TEST(LowerAttention, SchedulesThatDoNotFitSayWhat) {
    const auto message = [](const AttentionRequest& r) {
        try {
            r.plan();
        } catch (const ScheduleError& error) {
            return error.message();
        }
        return std::string("no error");
    };
    EXPECT_NE(message({128, 2, 1, {}, true, {{"stages", "4"}}}).find("bytes of shared memory"), std::string::npos);
    EXPECT_NE(message({128, 2, 1, {}, true, {{"tile_m", "192"}}}).find("registers a thread"), std::string::npos)
        << message({128, 2, 1, {}, true, {{"tile_m", "192"}}});
    EXPECT_NE(message({64, 2, 1, {}, true, {{"overlap", "operands"}, {"consumer_warpgroups", "3"}}}).find("registers a thread"), std::string::npos);
}

}  // namespace
}  // namespace plait::testing
