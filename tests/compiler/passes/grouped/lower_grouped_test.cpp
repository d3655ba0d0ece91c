// The grouped matmul's plans and sources as printed before, what the verifier finds in spoilt ones, what requests it refuses.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "compiler/backend/make_manifest.h"
#include "compiler/backend/nvrtc_compiler.h"
#include "compiler/codegen/emit.h"
#include "compiler/ir/text.h"
#include "compiler/passes/lower.h"
#include "compiler/verify/verify.h"
#include "runtime/base/error.h"
#include "tests/compiler/nvrtc.h"

namespace plait::testing {
namespace {

ScheduleFile file_of(const std::string& name) {
    ScheduleFile file = load_schedule_file(std::string(PLAIT_SOURCE_DIR) + "/schedules/" + name + ".json");
    file.problem.m_max = 2048, file.problem.n = 520, file.problem.k = 456;
    return file;
}

Plan plan_of(const ScheduleFile& file, const std::string& arch = "host") {
    Topology topology = Topology::simulated("1x1");
    topology.sms = 4;
    return lower(file.graph, file.schedule, file.problem, topology, Target::make(arch, topology));
}

Diagnostics verify(const Plan& plan) {
    Topology topology = Topology::simulated("1x1");
    topology.sms = 4;
    return verify_plan(plan, Target::make("host", topology));
}

void expect_golden(const std::string& path, const std::string& text) {
    const char* update = std::getenv("PLAIT_UPDATE_GOLDEN");
    if (update != nullptr && std::string(update) == "1") std::ofstream(path) << text;
    std::ifstream file(path);
    ASSERT_TRUE(file) << path << " is missing; PLAIT_UPDATE_GOLDEN=1 writes it";
    std::stringstream golden;
    golden << file.rdbuf();
    EXPECT_EQ(text, golden.str());
}

class GroupedGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(GroupedGolden, PlanIsAsPrintedBefore) {
    const Plan plan = plan_of(file_of(GetParam()));
    expect_golden(std::string(PLAIT_SOURCE_DIR) + "/tests/golden/plans/" + GetParam() + "_1x1.plan", print_plan(plan));
    EXPECT_EQ(print_plan(parse_plan(print_plan(plan)), false), print_plan(plan, false));
}

TEST_P(GroupedGolden, SourceIsAsPrintedBefore) {
    expect_golden(std::string(PLAIT_SOURCE_DIR) + "/tests/golden/sources/" + GetParam() + "_1x1_sm_90a.cu",
                  emit(plan_of(file_of(GetParam()), "sm_90a")).kernel);
}

TEST_P(GroupedGolden, RoleBodiesAreTheSameForBothMachines) {
    const auto bodies = [&](const std::string& arch) {
        const std::string kernel = emit(plan_of(file_of(GetParam()), arch)).kernel;
        return kernel.substr(kernel.find("// ---- role"), kernel.find("// ---- entry") - kernel.find("// ---- role"));
    };
    EXPECT_EQ(bodies("host"), bodies("sm_90a"));
}

#ifdef PLAIT_WITH_CUDA
// At the shapes that the schedule is made for: nothing spills, no matrix operation is serialised.
TEST_P(GroupedGolden, CompilesForSm90WithoutSpillsAndMessages) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    const ScheduleFile file = load_schedule_file(std::string(PLAIT_SOURCE_DIR) + "/schedules/" + GetParam() + ".json");
    const CubinResult result = compile_cubin(emit(plan_of(file, "sm_90a")));
    EXPECT_EQ(result.report.spill_bytes, 0);
    EXPECT_TRUE(result.report.messages.empty()) << result.report.messages.front();
}
#endif

INSTANTIATE_TEST_SUITE_P(Plans, GroupedGolden, ::testing::Values("grouped_matmul", "grouped_matmul_rows"),
                         [](const auto& info) { return std::string(info.param); });

TEST(GroupedManifest, NamesListsAndWhatMustBeAligned) {
    const ScheduleFile file = file_of("grouped_matmul_rows");
    const Manifest manifest = make_manifest(plan_of(file), file.problem, "");
    for (const WaitSite& site : manifest.wait_sites) {
        EXPECT_EQ(site.kind, "value");
        EXPECT_TRUE(site.flag == "offs" || site.flag == "rows") << site.flag;
    }
    for (const ManifestTensor& tensor : manifest.tensors)
        EXPECT_EQ(tensor.aligned, tensor.name == "x" || tensor.name == "second") << tensor.name;
    for (const ManifestParam& param : manifest.params) EXPECT_EQ(param.positive, param.name == "experts") << param.name;
}

// ---- spoilt plans

void each(std::vector<Statement>& body, const std::function<void(Statement&)>& use) {
    for (Statement& s : body) use(s), each(s.body, use);
}

// The plan with `from` replaced by `to` in one operand of every such statement; findings of the verifier.
std::string findings(const std::string& name, Op op, const std::string& operand, const std::string& from, const std::string& to) {
    Plan plan = plan_of(file_of(name));
    int changed = 0;
    for (ProgramDef& program : plan.programs) {
        each(program.body, [&](Statement& s) {
            if (s.op != op || s.expr(operand) != Expr(from)) return;
            for (Operand& o : s.operands) {
                if (o.name == operand) o.expr = Expr(to), ++changed;
            }
        });
    }
    EXPECT_GT(changed, 0) << "nothing to spoil";
    return print(verify(plan));
}

TEST(GroupedVerifier, FindsRowsOfANeighbourThatAreStored) {
    EXPECT_NE(findings("grouped_matmul", Op::StoreRows, "rows", "own", "min(64, own + 1)").find("check_exactly_once"), std::string::npos);
    EXPECT_NE(findings("grouped_matmul", Op::If, "cond", "own >= 64", "own >= 32").find("check_exactly_once"), std::string::npos);
    EXPECT_NE(findings("grouped_matmul", Op::Assign, "value", "min(tile_m, end - row)", "min(tile_m, M - row)").find("check_exactly_once"), std::string::npos);
}

TEST(GroupedVerifier, FindsRowsThatAreStoredByNobody) {
    EXPECT_NE(findings("grouped_matmul_rows", Op::StoreRows, "rows", "own", "own - 1").find("check_exactly_once"), std::string::npos);
    EXPECT_NE(findings("grouped_matmul", Op::If, "cond", "own < 64", "own < 32").find("check_exactly_once"), std::string::npos);
}

TEST(GroupedVerifier, FindsAnnouncementsAheadOfTheirCopies) {
    EXPECT_NE(findings("grouped_matmul_rows", Op::GatherWait, "pending", "lag", "lag + 1").find("before its write is complete"), std::string::npos);
}

TEST(GroupedVerifier, FindsAGatherWithoutRows) {
    EXPECT_NE(findings("grouped_matmul_rows", Op::GatherIndex, "count", "rows", "rows - 1").find("has no last one to repeat"), std::string::npos);
}

TEST(GroupedVerifier, FindsSegmentsThatLeaveOutTheirEnd) {
    EXPECT_NE(findings("grouped_matmul", Op::BreakIf, "cond", "rows == 0", "rows < 64").find("check_"), std::string::npos);
}

// ---- refused requests

std::string refusal(const std::string& name, const std::function<void(ScheduleFile&)>& spoil) {
    ScheduleFile file = file_of(name);
    spoil(file);
    Topology topology = Topology::simulated("1x1");
    return print(verify_request(file.graph, file.schedule, file.problem, topology, Target::make("host", topology)));
}

TEST(GroupedRequest, IsRefusedWithTheReason) {
    const auto expect = [](const char* name, const char* said, const std::function<void(ScheduleFile&)>& spoil) {
        const std::string what = refusal(name, spoil);
        EXPECT_NE(what.find(said), std::string::npos) << what;
    };
    expect("grouped_matmul", "the problem has no limit for `experts`", [](ScheduleFile& f) { f.problem.limits.clear(); });
    expect("grouped_matmul", "this grouped_matmul has no launch argument `keys`", [](ScheduleFile& f) { f.problem.limits["keys"] = 3; });
    expect("grouped_matmul", "ends of segments `offs` has dtype f32, grouped_matmul takes i32", [](ScheduleFile& f) { f.graph.inputs[2].dtype = "f32"; });
    expect("grouped_matmul", "grouped_matmul of bf16 `x` and f16 `w`", [](ScheduleFile& f) { f.graph.inputs[1].dtype = "f16"; });
    expect("grouped_matmul", "weights `w` has shape [N, K], grouped_matmul takes [experts, N, K]", [](ScheduleFile& f) { f.graph.inputs[1].shape = {"N", "K"}; });
    expect("grouped_matmul", "left operand `x` is sharded along dim 0", [](ScheduleFile& f) { f.graph.inputs[0].shard = 0; });
    expect("grouped_matmul_rows", "left operand `x` has shape [M, K], grouped_matmul takes [tokens, K]", [](ScheduleFile& f) { f.graph.inputs[0].shape = {"M", "K"}; });
    expect("grouped_matmul_rows", "stages = 2: gathered rows are announced 2 blocks late", [](ScheduleFile& f) { f.schedule.set("stages", "2"); });
    expect("grouped_matmul", "op 1 all_gather `z` cannot be fused after the grouped_matmul", [](ScheduleFile& f) {
        GraphOp op;
        op.op = "all_gather", op.result = "z", op.inputs = {"out"};
        f.graph.ops.push_back(op), f.graph.output = "z";
    });
}

TEST(GroupedRequest, NumberOfInputsIsARange) {
    ScheduleFile file = file_of("grouped_matmul");
    file.graph.ops[0].inputs = {"x", "w", "offs", "a", "b", "c"};
    try {
        read_schedule_json(write_schedule_json(file), "here");
        ADD_FAILURE() << "read six inputs";
    } catch (const ScheduleError& error) {
        EXPECT_NE(error.message().find("grouped_matmul takes 3 to 5 inputs, 6 given"), std::string::npos) << error.message();
    }
}

}  // namespace
}  // namespace plait::testing
