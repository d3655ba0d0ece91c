#include "compiler/codegen/emit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/codegen/emit_statement.h"
#include "compiler/ir/text.h"
#include "runtime/base/error.h"
#include "templates/abi/kernel_args.h"
#include "tests/compiler/passes/request.h"

namespace plait::testing {
namespace {

struct Golden {
    std::string name;
    TestRequest request;
};

void PrintTo(const Golden& golden, std::ostream* stream) { *stream << golden.name; }

TestRequest on(TestRequest request, const std::string& arch) {
    request.arch = arch;
    request.problem = {2048, 1024, 1024};
    return request;
}

std::vector<Golden> goldens() {
    TestRequest pointwise{"1x2", {}, {"bias", "gelu", "residual", "scale", "cast"}, {}, true, true};
    return {
        {"matmul_1x1_host", on({"1x1", {}, {}, {}, false}, "host")},
        {"matmul_clusters_1x1_host", on({"1x1", {{"cluster", "2"}, {"tile_m", "128"}}, {}, {}, false}, "host")},
        {"matmul_clusters_1x1_sm_90a", on({"1x1", {{"cluster", "2"}, {"tile_m", "128"}}, {}, {}, false}, "sm_90a")},
        {"matmul_clusters_along_n_1x1_sm_90a",
         on({"1x1", {{"cluster", "2"}, {"cluster_along", "n"}, {"tile_n", "112"}}, {"residual"}, {}, false, true}, "sm_90a")},
        {"ag_gemm_2x2_phase_host", on({"2x2"}, "host")},
        {"ag_gemm_2x2_phase_sm_90a", on({"2x2"}, "sm_90a")},
        {"ag_gemm_2x2_warp_sm_90a", on({"2x2", placed("warp", "warp")}, "sm_90a")},
        {"ag_gemm_1x2_nt_pointwise_sm_90a", on(pointwise, "sm_90a")},
    };
}

// From the first role's heading to the entry's: what both machines must read alike.
std::string role_bodies(const std::string& kernel) {
    std::size_t first = kernel.find("// ---- role"), end = kernel.find("// ---- entry");
    if (first == std::string::npos || end == std::string::npos) throw InternalError("source without markers");
    return kernel.substr(first, end - first);
}

// The first line in which two texts differ, both versions of it; empty where they are equal.
std::string first_difference(const std::string& left, const std::string& right) {
    std::istringstream lefts(left), rights(right);
    std::string a, b;
    for (int number = 1;; ++number) {
        const bool has_left = bool(std::getline(lefts, a)), has_right = bool(std::getline(rights, b));
        if (!has_left && !has_right) return "";
        if (has_left != has_right || a != b) return "line " + std::to_string(number) + "\n  " + a + "\n  " + b;
    }
}

Plan small_plan() {
    Plan plan;
    plan.name = "small";
    plan.target = "host";
    plan.m_max = 64;
    plan.threads = 128;
    plan.consts = {{"N", 64}};
    plan.lets = {{"shard", Expr("ceil_div(M, world)")},
                 {"unused", Expr("M * 2")},
                 {"first_row", Expr("rank * shard")},
                 {"bank", Expr("epoch % 2")}};
    plan.tensors = {{"c", "bf16", {Expr("M"), Expr("N")}, true}};
    plan.flags = {{"ready", 4, 0, false}, {"entered", 1, 0, true}};
    plan.maps = {{"c_map",
                  0,
                  "c",
                  "bf16",
                  Expr(0),
                  {Expr("N"), Expr("M"), Expr(1)},
                  {Expr("N * 2"), Expr("M * N * 2")},
                  {64, 64, 1}},
                 {"c_map",
                  1,
                  "c",
                  "bf16",
                  Expr(0),
                  {Expr("N"), Expr("M"), Expr(1)},
                  {Expr("N * 2"), Expr("M * N * 2")},
                  {64, 64, 1}}};
    plan.shared = {{"box", 8192, 2, 1024}, {"slot", 8, 2, 16}};
    plan.barriers = {{"full", 2, 1, 1}};
    plan.agents = {{"loader", AgentKind::Thread, 0, 0, {"compute_loader"}}};
    ProgramDef program;
    program.name = "compute_loader";
    program.role = "compute";
    program.body = {make_statement(Op::Enter, {"epoch"}),
                    make_statement(Op::WaitFlag, {"ready", "first_row + bank", "epoch", "System", "ready"}),
                    make_statement(Op::WaitFlag, {"entered", "0", "epoch", "System", "ready"})};
    plan.programs = {program};
    return plan;
}

class SourceGoldens : public ::testing::TestWithParam<Golden> {};

TEST_P(SourceGoldens, SourceIsAsPrintedBefore) {
    const std::string path = std::string(PLAIT_SOURCE_DIR) + "/tests/golden/sources/" + GetParam().name + ".cu";
    const std::string text = emit(GetParam().request.plan()).kernel;
    const char* update = std::getenv("PLAIT_UPDATE_GOLDEN");
    if (update != nullptr && std::string(update) == "1") std::ofstream(path) << text;
    std::ifstream file(path);
    ASSERT_TRUE(file) << path << " is missing; PLAIT_UPDATE_GOLDEN=1 writes it";
    std::stringstream golden;
    golden << file.rdbuf();
    EXPECT_EQ(first_difference(text, golden.str()), "");
}

TEST_P(SourceGoldens, RoleBodiesAreTheSameBytesOnBothMachines) {
    TestRequest host = GetParam().request, sm90 = host;
    host.arch = "host";
    sm90.arch = "sm_90a";
    const std::string bodies = role_bodies(emit(host.plan()).kernel);
    EXPECT_EQ(first_difference(bodies, role_bodies(emit(sm90.plan()).kernel)), "");
    for (const char* word : {"#if", "__CUDA", "asm", "sm_90a", "threadIdx"})
        EXPECT_EQ(bodies.find(word), std::string::npos) << word;
}

INSTANTIATE_TEST_SUITE_P(Sources, SourceGoldens, ::testing::ValuesIn(goldens()),
                         [](const auto& info) { return info.param.name; });

TEST(Emit, PrintsTheSameTextForTheSamePlan) {
    const Plan plan = on({"2x2"}, "sm_90a").plan();
    EXPECT_EQ(emit(plan).kernel, emit(plan).kernel);
}

TEST(Emit, KeyTextForgetsCommentsAndTheUsersLines) {
    Plan plan = small_plan(), commented = plan;
    commented.programs[0].source = "ag_gemm.py:12";
    commented.programs[0].body[0].comment = "the launch begins";
    EXPECT_EQ(emit(plan).key_text, emit(commented).key_text);
    EXPECT_NE(emit(plan).kernel, emit(commented).kernel);
    EXPECT_NE(emit(commented).kernel.find("from ag_gemm.py:12"), std::string::npos);
    EXPECT_NE(emit(commented).kernel.find("    // the launch begins\n    const i64 epoch"), std::string::npos);
}

TEST(Emit, KeyTextFollowsEveryStatement) {
    Plan plan = small_plan(), other = plan;
    other.programs[0].body.pop_back();
    EXPECT_NE(emit(plan).key_text, emit(other).key_text);
}

// What the kernel does not use is not printed; what depends on the epoch stands after the statement that declares it.
TEST(Emit, PrintsOnlyUsedLetsAndTheEpochsAfterEnter) {
    const std::string kernel = emit(small_plan()).kernel;
    EXPECT_EQ(kernel.find("unused"), std::string::npos);
    EXPECT_EQ(kernel.find("const i64 cta"), std::string::npos);
    const std::string expected =
        "    const i64 M = args.launch.m;\n    const i64 rank = args.launch.rank;\n    const i64 shard = ceil_div(M, "
        "world);\n"
        "    const i64 first_row = rank * shard;\n    const i64 epoch = enter(ag, args);\n    const i64 bank = epoch % "
        "2;\n";
    EXPECT_NE(kernel.find(expected), std::string::npos) << kernel;
}

// A launch argument beside M is a field of Args and a name wherever it is used, in lets too.
TEST(Emit, PrintsLaunchArgumentsBesideM) {
    Plan plan = small_plan();
    plan.params = {{"keys", 300}, {"unread", 5}};
    plan.lets.push_back({"key_blocks", "ceil_div(keys, 64)"});
    plan.programs[0].body.insert(plan.programs[0].body.begin() + 1, make_statement(Op::Let, {"blocks", "key_blocks + 1"}));
    const std::string kernel = emit(plan).kernel;
    EXPECT_NE(kernel.find("    i64 keys;   // <= 300\n"), std::string::npos) << kernel;
    EXPECT_NE(kernel.find("    const i64 keys = args.keys;\n"), std::string::npos) << kernel;
    EXPECT_LT(kernel.find("const i64 keys = args.keys;"), kernel.find("const i64 key_blocks = ceil_div(keys, 64);"));
    EXPECT_EQ(kernel.find("args.unread"), std::string::npos) << kernel;
}

TEST(Emit, NumbersAbortableWaitsInTheOrderOfTheSource) {
    const Plan plan = small_plan();
    const std::string kernel = emit(plan).kernel;
    EXPECT_NE(
        kernel.find("wait_flag(ag, args, own_flag(args, ready_offset, first_row + bank), epoch, Scope::System, 0);"),
        std::string::npos)
        << kernel;
    EXPECT_NE(kernel.find("wait_flag(ag, args, own_entered(args, 0), entered_since(epoch), Scope::System, 1);"), std::string::npos)
        << kernel;
    const std::vector<PrintedWait> waits = printed_waits(plan);
    ASSERT_EQ(waits.size(), 2u);
    EXPECT_EQ(waits[1].flag, "entered");
    EXPECT_EQ(waits[1].agent, "loader");
}

TEST(Emit, RefusesALetThatTheProgramCanNeverKnow) {
    Plan plan = small_plan();
    plan.programs[0].body.erase(plan.programs[0].body.begin());
    EXPECT_THROW(emit(plan), InternalError);
}

TEST(Emit, RefusesALiteralProductThatCxxWouldComputeIn32Bits) {
    EXPECT_THROW(print_source_expr(Expr("rank + 65536 * 65536")), InternalError);
    EXPECT_EQ(print_source_expr(Expr("rank * 65536 * 65536")), Expr("rank * 65536 * 65536").print());
}

TEST(ArgsLayout, FollowsTheAbiStructAndAlignsMaps) {
    const std::vector<ArgsField> fields = args_layout(small_plan());
    ASSERT_EQ(fields.size(), 3u);
    EXPECT_EQ(fields[0].bytes, sizeof(Launch));
    EXPECT_EQ(fields[1].offset, sizeof(Launch));
    EXPECT_EQ(fields[2].offset % alignof(TensorMap), 0u);
    EXPECT_EQ(fields[2].bytes, 2 * sizeof(TensorMap));
    EXPECT_EQ(args_bytes(small_plan()), fields[2].offset + 256);
    EXPECT_EQ(shared_bytes(small_plan()), 17408u);  // 2 x 8192, 2 x 8, 2 barriers, up to the next 1024
}

}  // namespace
}  // namespace plait::testing
