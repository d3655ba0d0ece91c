// Plans written by hand for kernels that nothing lowers to yet: they show that the Plan can say them. Each parses,
// prints, round-trips and passes the verifier; the verifier finds the signal that a copy lacks, and every single
// ordering action that is taken out of the whole plan.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/backend/nvrtc_compiler.h"
#include "compiler/codegen/emit.h"
#include "compiler/ir/target.h"
#include "compiler/ir/text.h"
#include "compiler/verify/verify.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#ifdef PLAIT_WITH_CUDA
#include "tests/compiler/consumer_spills.h"
#include "tests/compiler/nvrtc.h"
#endif

namespace plait {
namespace {

std::string path_of(const std::string& name) { return PLAIT_SOURCE_DIR "/tests/compiler/ir/plans/" + name + ".plan"; }
Plan load(const std::string& name) { return parse_plan(read_file(path_of(name))); }

Diagnostics verify(const Plan& plan) {
    Topology topology = Topology::from_file(PLAIT_SOURCE_DIR "/schedules/topologies/h200_1x1.json");
    Target target = Target::make("sm_90a", topology);
    target.sms = 4;  // CTAs that the verifier interprets
    return verify_plan(plan, target);
}

bool orders(const Statement& statement) {
    const Effect effect = op_spec(statement.op).effect;
    return effect == Effect::Signal || effect == Effect::Wait || effect == Effect::Fence;
}

// Calls use(body, index) for every statement, outermost first.
template <class Use>
void each_statement(std::vector<Statement>& body, const Use& use) {
    for (std::size_t i = 0; i < body.size(); ++i) {
        use(body, i);
        each_statement(body[i].body, use);
    }
}

int count_ordering(Plan plan) {
    int count = 0;
    for (ProgramDef& program : plan.programs) {
        each_statement(program.body,
                       [&](std::vector<Statement>& body, std::size_t i) { count += orders(body[i]) ? 1 : 0; });
    }
    return count;
}

// The plan without its n-th ordering action, and what that was.
Plan without(Plan plan, int n, std::string* what) {
    std::vector<Statement>* at = nullptr;
    std::size_t index = 0;
    for (ProgramDef& program : plan.programs) {
        each_statement(program.body, [&](std::vector<Statement>& body, std::size_t i) {
            if (!orders(body[i]) || n-- != 0) return;
            at = &body, index = i;
            const std::string on = body[i].has("edge") ? body[i].word("edge") : "no edge";
            *what = fmt::format("{}: {} on {}", program.name, op_spec(body[i].op).mnemonic, on);
        });
    }
    at->erase(at->begin() + static_cast<std::ptrdiff_t>(index));
    return plan;
}

class HandwrittenPlan : public ::testing::TestWithParam<const char*> {};

TEST_P(HandwrittenPlan, RoundTripsThroughText) {
    const Plan plan = load(GetParam());
    const std::string text = print_plan(plan);
    EXPECT_EQ(print_plan(parse_plan(text)), text);
}

TEST_P(HandwrittenPlan, PassesTheVerifier) { EXPECT_EQ(print(verify(load(GetParam()))), ""); }

TEST_P(HandwrittenPlan, MissingSignalIsFound) {
    const std::string name = GetParam();
    const Plan plan = load(name), broken = load(name + "_missing_signal");
    EXPECT_EQ(count_ordering(broken), count_ordering(plan) - 1);
    const Diagnostics findings = verify(broken);
    ASSERT_FALSE(findings.empty());
    EXPECT_NE(print(findings).find("edge"), std::string::npos) << print(findings);
}

TEST_P(HandwrittenPlan, EveryRemovedOrderingActionIsFound) {
    const Plan plan = load(GetParam());
    const int count = count_ordering(plan);
    ASSERT_GT(count, 20);
    for (int n = 0; n < count; ++n) {
        std::string what;
        const Plan mutant = without(plan, n, &what);
        EXPECT_FALSE(verify(mutant).empty()) << GetParam() << ": nobody misses " << what;
    }
}

TEST_P(HandwrittenPlan, EmitterRefusesOpsWithoutAPrimitiveByName) {
    if (std::string(GetParam()) == "moe_dispatch_gemm") GTEST_SKIP() << "compiled below";
    if (GetParam() == std::string("ring_attention")) {
        EXPECT_NE(emit(load(GetParam())).kernel.find("row_rescale(ag, factor, maximum, score, 0.18033688f, 8.0f);"),
                  std::string::npos);
        return;
    }
    try {
        emit(load(GetParam()));
        FAIL() << "every op has a primitive now: compile and run this plan";
    } catch (const CompileError& error) {
        EXPECT_NE(error.message().find("has no primitive in the tile machine yet"), std::string::npos)
            << error.message();
    }
}

#ifdef PLAIT_WITH_CUDA
TEST(HandwrittenMoe, CompilesForSm90WithoutSpillsOfWarpgroups) {
    Source source;
    EXPECT_NO_THROW(source = emit(load("moe_dispatch_gemm")));
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    testing::expect_only_thread_agents_spill(load("moe_dispatch_gemm"));
}
#endif

INSTANTIATE_TEST_SUITE_P(Plans, HandwrittenPlan, ::testing::Values("gemm_rs", "moe_dispatch_gemm", "ring_attention"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace plait
