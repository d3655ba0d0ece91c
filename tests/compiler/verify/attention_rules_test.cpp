// Attention requests that are refused, by message; and attention plans with an ordering action missing.
#include <gtest/gtest.h>

#include <set>

#include "tests/compiler/passes/attention_request.h"
#include "tests/compiler/verify/plan_edit.h"

namespace plait::testing {
namespace {

// One finding with this text at this place, and none of another rule.
void expect(const Diagnostics& findings, const std::string& rule, const std::string& where, const std::string& text) {
    bool found = false;
    for (const Diagnostic& d : findings) {
        EXPECT_EQ(d.rule, rule) << d.message;
        EXPECT_FALSE(d.hint.empty()) << d.message;
        found = found || (d.where == where && d.message.find(text) != std::string::npos);
    }
    EXPECT_TRUE(found) << "expected at " << where << ": " << text << "\n" << print(findings);
}

void expect_graph(const std::function<void(Graph&)>& change, const std::string& where, const std::string& text) {
    const AttentionRequest r{128, 4, 2, causal()};
    Graph g = r.graph();
    change(g);
    expect(r.verify(g), "check_graph", where, text);
}

TEST(CheckAttention, AcceptsWhatItOffers) {
    for (const std::int64_t head_dim : {64, 128, 256}) EXPECT_TRUE((AttentionRequest{head_dim, 8, 8}.verify().empty()));
    EXPECT_TRUE((AttentionRequest{64, 71, 1}.verify().empty()));
}

TEST(CheckAttention, RefusesHeadsAndShapesItDoesNotOffer) {
    const std::string op = "/graph/ops/0";
    EXPECT_NO_FATAL_FAILURE(expect(AttentionRequest{96}.verify(), "check_graph", op, "head dim 96 is not offered"));
    expect(AttentionRequest{128, 6, 4}.verify(), "check_graph", op, "6 query heads cannot share 4 key heads: 2 is left over");
    expect_graph([](Graph& g) { g.inputs[2].shape[3] = Expr(64); }, op, "head dims 128 of `q`, 128 of `k` and 64 of `v` differ");
    expect_graph([](Graph& g) { g.inputs[2].shape[2] = Expr(4); }, op, "`k` has 2 heads, `v` has 4");
    expect_graph([](Graph& g) { g.inputs[1].shape[1] = Expr("M"); }, op,
                 "key `k` has shape [batch, M, 2, 128], attention in bshd takes [batch, keys, heads, head_dim]");
    expect_graph([](Graph& g) { g.inputs[0].shape.pop_back(); }, op, "query `q` has shape [batch, M, 4]");
    expect_graph([](Graph& g) { g.inputs[0].shape[2] = Expr("heads"); }, op, "query `q` has shape [batch, M, heads, 128]");
    expect_graph([](Graph& g) { g.inputs[0].shard = 1; }, op, "query `q` is sharded along dim 1");
    expect_graph([](Graph& g) { g.inputs[1].dtype = "f16"; }, op, "attention of bf16 `q`, f16 `k` and bf16 `v`");
    expect_graph([](Graph& g) { for (GraphTensor& t : g.inputs) t.dtype = "f32"; }, op, "attention of f32 tensors");
    expect_graph([](Graph& g) { g.ops[0].inputs[1] = "x"; }, op, "key of attention is `x`, which is not an input");
    expect_graph([](Graph& g) { g.ops[0].inputs.pop_back(); }, op, "attention takes 3 inputs (q, k, v), got 2");
}

TEST(CheckAttention, PointsAtTheLineOfATracedProgram) {
    expect_graph(
        [](Graph& g) {
            g.ops[0].source = "layer.py:7";
            g.ops[0].attention.layout = "sbhd";
        },
        "layer.py:7", "layout `sbhd` is not offered");
}

TEST(CheckAttention, RefusesNumericsItDoesNotOffer) {
    const auto with = [](const std::function<void(AttentionAttributes&)>& change, const std::string& attribute,
                         const std::string& text) {
        expect_graph([&](Graph& g) { change(g.ops[0].attention); }, "/graph/ops/0/" + attribute, text);
    };
    with([](auto& a) { a.layout = "sbhd"; }, "layout", "layout `sbhd` is not offered");
    with([](auto& a) { a.causal = false, a.causal_offset = 3; }, "causal_offset", "causal_offset = 3 without causal");
    with([](auto& a) { a.causal_offset = 1ll << 40; }, "causal_offset", "is outside of +-2^30");
    with([](auto& a) { a.scale = -1; }, "scale", "scale = -1");
    with([](auto& a) { a.key_block = 96; }, "key_block", "key_block = 96 is not offered");
    with([](auto& a) { a.rescale_threshold = 16; }, "rescale_threshold", "rescale_threshold = 16 is outside of 0..15");
    with([](auto& a) { a.lse = "other"; }, "lse", "log-sum-exp `other` is computed and not kept");
    AttentionRequest wide{256};
    wide.attributes.key_block = 128;
    expect(wide.verify(), "check_graph", "/graph/ops/0/key_block", "key_block = 128 with head dim 256");
}

TEST(CheckAttention, RefusesOutputsAndNeighbours) {
    expect_graph([](Graph& g) { g.output = "x"; }, "/graph/output", "output `x` is not the result of attention, `o`");
    expect_graph([](Graph& g) { g.more_outputs[0].dtype = "bf16"; }, "/graph/more_outputs/0/dtype", "log-sum-exp `lse` in bf16");
    expect_graph([](Graph& g) { g.more_outputs.push_back({"m", "f32"}); }, "/graph/more_outputs/1",
                 "output `m` is no side result of attention");
    expect_graph([](Graph& g) { g.inputs.push_back({"w", "bf16", {Expr("M")}, -1}); }, "/graph/inputs/3",
                 "input `w` is not used by any op");
    expect_graph(
        [](Graph& g) {
            GraphOp op;
            op.op = "relu", op.result = "r", op.inputs = {"o"}, op.source = "layer.py:9";
            g.ops.push_back(op);
        },
        "layer.py:9", "op 1 relu `r` cannot be fused with attention");
}

TEST(CheckAttention, RefusesTilesAndLimitsThatDoNotFit) {
    expect(AttentionRequest{128, 2, 1, {}, true, {{"tile_m", "128"}, {"consumer_warpgroups", "1"}}}.verify(), "check_attention",
           "/schedule/tile_m", "tile_m = 128 with 1 consumer warpgroups: attention computes 64 rows in each");
    expect(AttentionRequest{128, 2, 1, {}, true, {{"tile_m", "256"}}}.verify(), "check_attention", "/schedule/tile_m",
           "tile_m = 256 needs 4 consumer warpgroups");
    const AttentionRequest r;
    Problem p = r.problem();
    p.limits = {{"keys", 10}, {"experts", 3}};
    const Diagnostics findings = verify_request(r.graph(), r.schedule(), p, r.cluster(), r.target());
    expect(findings, "check_limits", "/problem/limits/batch", "the problem has no limit for `batch`");
    expect(findings, "check_limits", "/problem/limits/experts", "attention has no launch argument `experts`");
}

// Each signal and fence of an attention plan, taken away: some rule says so. Waits are the simulation's matter
// (tests/sim/attention_mutation_test.cpp): the interpreter lets a load be complete when a later one is.
TEST(AttentionPlan, EveryMissingSignalAndFenceIsFound) {
    // The offset makes every loop run: with tiles as high as blocks the diagonal crosses one block alone.
    const AttentionRequest r{64, 2, 1, causal(37), true, {{"consumer_warpgroups", "2"}, {"overlap", "products"}}};
    const Plan good = r.plan();
    ASSERT_TRUE(verify_plan(good, r.target()).empty());
    int removed = 0;
    for (const Op op : {Op::BarrierArrive, Op::MmaBegin, Op::MmaWait, Op::MmaCommit, Op::AgentSync, Op::FenceAsyncShared,
                        Op::BulkWaitRead, Op::BulkWait, Op::BulkCommit}) {
        for (const char* program : {"compute_loader", "compute_consumer"}) {
            for (int n = 0;; ++n) {
                Plan bad = good;
                try {
                    remove(&bad, program, op, n);
                } catch (const std::runtime_error&) {
                    break;  // there is no n-th one
                }
                removed += 1;
                EXPECT_FALSE(verify_plan(bad, r.target()).empty())
                    << op_spec(op).mnemonic << " " << n << " of " << program << " is missing and nobody minds";
            }
        }
    }
    EXPECT_GT(removed, 25);
}

TEST(AttentionPlan, ANeighboursRowIsFound) {
    const AttentionRequest r{64, 2, 1, causal(), true, {{"consumer_warpgroups", "2"}}};
    Plan bad = r.plan();
    each(program_body(&bad, "compute_consumer"), Op::StoreBox, [](auto* list, std::size_t i) {
        for (Operand& o : (*list)[i].operands) {
            if (o.name == "y") o.expr = Expr("row");
        }
        return true;
    });
    const Diagnostics findings = verify_plan(bad, r.target());
    ASSERT_FALSE(findings.empty());
    EXPECT_EQ(findings[0].rule, "check_exactly_once") << print(findings);
    bad = r.plan();
    each(program_body(&bad, "compute_consumer"), Op::StoreLogSumExp, [](auto* list, std::size_t i) {
        for (Operand& o : (*list)[i].operands) {
            if (o.name == "rows") o.expr = Expr("64");
        }
        return true;
    });
    const Diagnostics beyond = verify_plan(bad, r.target());
    ASSERT_FALSE(beyond.empty());
    EXPECT_EQ(beyond[0].rule, "check_exactly_once") << print(beyond);
}

}  // namespace
}  // namespace plait::testing
