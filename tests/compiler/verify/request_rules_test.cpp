// Requests that are refused, by message, and all findings at once.
#include <gtest/gtest.h>

#include <set>

#include "tests/compiler/passes/request.h"

namespace plait::testing {
namespace {

// One finding with this text, and none of another rule.
void expect(const Diagnostics& findings, const std::string& rule, const std::string& text) {
    ASSERT_FALSE(findings.empty()) << text;
    bool found = false;
    for (const Diagnostic& d : findings) {
        EXPECT_EQ(d.rule, rule) << d.message;
        EXPECT_FALSE(d.hint.empty()) << d.message;
        EXPECT_FALSE(d.where.empty()) << d.message;
        found = found || d.message.find(text) != std::string::npos;
    }
    EXPECT_TRUE(found) << print(findings);
}

Diagnostics verify(const TestRequest& r, const Graph& g) {
    return verify_request(g, r.schedule(), r.problem, r.cluster(), r.target());
}

TEST(CheckGraph, AcceptsEveryComposition) {
    EXPECT_TRUE((TestRequest{"2x2", {}, {"bias", "gelu", "residual", "cast"}}.verify().empty()));
    EXPECT_TRUE((TestRequest{"1x1", {}, {}, {10, 8, 8}, false}.verify().empty()));
}

TEST(CheckGraph, NamesTheOpThatCannotBeFused) {
    const TestRequest r;
    Graph g = r.graph();
    GraphOp op;
    op.op = "reduce_scatter", op.result = "d", op.inputs = {"c"}, op.source = "layer.py:7";
    g.ops.push_back(op), g.output = "d";
    const Diagnostics findings = verify(r, g);
    expect(findings, "check_graph", "reduce_scatter `d` cannot be fused after the matmul");
    EXPECT_EQ(findings[0].where, "layer.py:7");
}

TEST(CheckGraph, RefusesWhatIsNoChain) {
    const TestRequest r{"2x2", {}, {"relu", "gelu"}};
    Graph g = r.graph();
    g.ops.back().inputs = {"c"};
    expect(verify(r, g), "check_graph", "gelu reads `c`, not the result before it, `c2`");
    g = r.graph();
    g.output = "c2";
    expect(verify(r, g), "check_graph", "output `c2` is not the result of the last op, `c3`");
}

TEST(CheckGraph, SiluMulStandsRightAfterTheMatmulAndHalvesItsColumns) {
    const TestRequest r{"1x1", {}, {"scale"}, {100, 200, 64}, false};
    Graph g = r.graph();
    GraphOp op;
    op.op = "silu_mul", op.result = "d", op.inputs = {g.output};
    g.ops.push_back(op), g.output = "d";
    expect(verify(r, g), "check_graph", "silu_mul `d` does not follow the matmul");
    g.ops.erase(g.ops.begin() + 1);
    g.ops.back().inputs = {"c"};
    expect(verify(r, g), "check_graph", "right operand `b` has shape [K, N], matmul takes [K, 2 * N]");
}

TEST(CheckGraph, RefusesToGatherATransposedOperand) {
    const TestRequest r;
    Graph g = r.graph();
    g.ops[1].transpose_a = true;
    g.inputs[0].shape = {Expr("K"), Expr("M")};
    g.inputs[0].shard = 0;
    expect(verify(r, g), "check_graph", "left operand `a` is gathered and transposed");
}

TEST(CheckGraph, RefusesGatherOfColumnsAndOfWholeTensors) {
    const TestRequest r;
    Graph g = r.graph();
    g.ops[0].dim = 1;
    expect(verify(r, g), "check_graph", "all_gather along dim 1");
    g = r.graph();
    g.inputs[0].shard = -1;
    expect(verify(r, g), "check_graph", "all_gather of `a`, which is not sharded");
}

TEST(CheckGraph, RefusesShapesThatDoNotFit) {
    const TestRequest r{"1x2", {}, {"bias"}};
    Graph g = r.graph();
    g.inputs[1].shape = {Expr("N"), Expr("K")};
    g.inputs[2].shape = {Expr("M")};
    const Diagnostics findings = verify(r, g);
    expect(findings, "check_graph", "right operand `b` has shape [N, K], matmul takes [K, N]");
    expect(findings, "check_graph", "bias `bias` has shape [M], bias takes [N]");
}

TEST(CheckGraph, RefusesUnusedInputsAndMissingMatmul) {
    const TestRequest r;
    Graph g = r.graph();
    g.inputs.push_back({"spare", "bf16", {Expr("N")}, -1});
    expect(verify(r, g), "check_graph", "input `spare` is not used");
    g = r.graph();
    g.ops.pop_back(), g.output = "a_all", g.inputs.pop_back();
    expect(verify(r, g), "check_graph", "graph has no matmul");
}

TEST(CheckGraph, RefusesOtherNumerics) {
    const TestRequest r;
    Graph g = r.graph();
    g.numerics.accumulate = "bf16";
    expect(verify(r, g), "check_graph", "accumulation in bf16 is not available");
}

TEST(CheckDtypes, RefusesUnknownOutputsAndMixedOperands) {
    const TestRequest r;
    Graph g = r.graph();
    g.output_dtype = "f64";
    g.inputs[1].dtype = "f16";
    const Diagnostics findings = verify(r, g);
    expect(findings, "check_dtypes", "output dtype f64");
    expect(findings, "check_dtypes", "matmul of bf16 `a` and f16 `b`");
    g = r.graph();
    g.inputs[0].dtype = "fp8";
    expect(verify(r, g), "check_dtypes", "tensor `a` has dtype fp8");
}

TEST(CheckShapes, NamesTheDimensionAndWhatToPadTo) {
    const Diagnostics findings = TestRequest{"2x2", {}, {}, {100, 260, 0}}.verify();
    expect(findings, "check_shapes", "n = 260 is not a multiple of 8");
    expect(findings, "check_shapes", "k is 0");
    EXPECT_EQ(findings[0].hint, "pad to 264");
    EXPECT_EQ(findings[0].where, "/problem/n");
}

TEST(CheckRoles, RefusesWorkWithoutAPlace) {
    const Diagnostics findings = TestRequest{"2x2", placed("none", "none")}.verify();
    expect(findings, "check_roles", "role intra_comm has no placement, but 2 ranks of a node exchange shards");
    expect(findings, "check_roles", "role inter_send has no placement, but shards cross between 2 nodes");
}

TEST(CheckRoles, RefusesSmsWithoutWork) {
    expect(TestRequest{"1x2", placed("phase", "sms")}.verify(), "check_roles",
           "role inter_send is placed as sms but has no work: topology 1x2 gives it none");
    expect(TestRequest{"1x2", {{"inter_reduce", "warp"}}}.verify(), "check_roles",
           "role inter_reduce is placed as warp but has no work");
    EXPECT_TRUE((TestRequest{"1x2", placed("phase", "phase")}.verify().empty()))
        << "one schedule serves many topologies";
}

TEST(CheckRoles, RefusesMoreSmsThanThereAre) {
    const Diagnostics findings =
        TestRequest{"2x2",
                    {{"intra_comm", "sms"}, {"inter_send", "sms"}, {"intra_comm_sms", "4"}, {"inter_send_sms", "2"}}}
            .verify();
    expect(findings, "check_roles", "roles take 6 SMs (intra_comm 4 + inter_send 2), host has 6 and compute needs one");
    expect(TestRequest{"1x2", {{"intra_comm_sms", "0"}}}.verify(), "check_roles",
           "role intra_comm is placed as phase on 0 SMs");
}

TEST(CheckTiles, ShowsTheNumbers) {
    const Diagnostics findings = TestRequest{"1x2", {{"tile_m", "64"}, {"tile_n", "80"}}}.verify();
    expect(findings, "check_tiles", "tile_m = 64 is not a multiple of 64 x 2 consumer warpgroups = 128");
    expect(findings, "check_tiles", "tile_n = 80 is not a multiple of 64");
    EXPECT_TRUE((TestRequest{"1x1", {{"tile_n", "80"}}, {}, {100, 200, 64}, false}.verify().empty()))
        << "where nothing is gathered the map clips at the tile";
}

TEST(CheckTiles, StagesDivideTheDepth) {
    TestRequest r{"1x1", {{"tile_k", "128"}}, {}, {100, 200, 328}, false};
    EXPECT_TRUE(r.verify().empty()) << "six blocks of 64";
    r.problem.k = 320;
    expect(r.verify(), "check_tiles", "tile_k = 128 takes 2 blocks of 64 at a time, K has 5");
}

TEST(CheckTiles, GatedTilesTakeTwoAccumulators) {
    const TestRequest r{"1x1", {{"tile_n", "256"}}, {}, {100, 200, 64}, false};
    Graph g = r.graph();
    g.inputs[1].shape = {Expr("K"), Expr("2 * N")};
    GraphOp op;
    op.op = "silu_mul", op.result = "d", op.inputs = {"c"};
    g.ops.push_back(op), g.output = "d";
    expect(verify(r, g), "check_tiles", "tile 128 x 256 of a gated matmul takes 256 accumulator registers a thread");
}

TEST(CheckPieces, GivenSizesMustFitTheSlots) {
    const Diagnostics findings = TestRequest{"1x2", {{"piece_bytes", "32768"}, {"pieces", "5"}}}.verify();
    expect(findings, "check_pieces", "piece_bytes = 32768 exceeds an operand slot of 16384 bytes");
    expect(findings, "check_pieces", "pieces = 5 exceeds the 4 operand slots");
    EXPECT_TRUE(
        (TestRequest{"1x2", {{"pieces", "5"}, {"piece_bytes", "4096"}, {"intra_comm", "warp"}, {"inter_send", "warp"}}}
             .verify()
             .empty()));
}

TEST(Verify, AllFindingsComeAtOnce) {
    TestRequest r{"2x2", {{"intra_comm", "none"}, {"tile_n", "80"}, {"pieces", "8"}}, {}, {100, 12, 12}};
    Graph g = r.graph();
    g.output_dtype = "f64";
    std::set<std::string> rules;
    for (const Diagnostic& d : verify(r, g)) rules.insert(d.rule);
    EXPECT_EQ(rules,
              (std::set<std::string>{"check_dtypes", "check_shapes", "check_roles", "check_tiles", "check_pieces"}));
}

}  // namespace
}  // namespace plait::testing
