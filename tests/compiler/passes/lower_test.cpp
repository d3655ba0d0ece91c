// What the lowering promises, whatever the request.
#include <gtest/gtest.h>

#include <functional>

#include "compiler/ir/plan_sizes.h"
#include "compiler/ir/text.h"
#include "runtime/base/error.h"
#include "tests/compiler/passes/request.h"

namespace plait::testing {
namespace {

int count(const Plan& plan, Op op, const std::string& program = "") {
    int found = 0;
    const std::function<void(const std::vector<Statement>&)> visit = [&](const std::vector<Statement>& body) {
        for (const Statement& s : body) found += s.op == op, visit(s.body);
    };
    for (const ProgramDef& p : plan.programs) {
        if (program.empty() || p.name == program) visit(p.body);
    }
    return found;
}

const ProgramDef* program(const Plan& plan, const std::string& name) {
    for (const ProgramDef& p : plan.programs) {
        if (p.name == name) return &p;
    }
    return nullptr;
}

std::int64_t at(const Expr& e, std::int64_t ctas) {
    return e.evaluate([&](const std::string&, bool, std::int64_t) { return ctas; });
}

TEST(Lower, EveryTopologyAndPlacementGivesAPlanThatVerifies) {
    for (const char* topology : {"1x1", "1x2", "1x3", "1x5", "1x7", "1x8", "2x1", "3x1", "4x1", "2x2", "2x3", "3x2",
                                 "4x2", "2x5", "4x4", "2x8"}) {
        for (const char* intra : {"phase", "warp", "sms"}) {
            for (const char* inter : {"phase", "warp", "sms"}) {
                const Topology t = Topology::simulated(topology);
                if ((std::string(intra) == "sms" && t.gpus_per_node == 1) ||
                    (std::string(inter) == "sms" && t.nodes == 1))
                    continue;
                TestRequest r{topology, placed(intra, inter)};
                EXPECT_NO_THROW(r.plan()) << topology << " " << intra << " " << inter;
            }
        }
    }
}

TEST(Lower, FewRowsManyRanks) {
    for (std::int64_t m : {1, 2, 5, 15, 17}) {
        TestRequest r{"4x4", {}, {}, {m, 8, 8}};
        EXPECT_NO_THROW(r.plan()) << m;
    }
}

TEST(Lower, TilesThatDivideNothing) {
    using Knobs = std::vector<std::pair<std::string, std::string>>;
    for (const Knobs& knobs :
         {Knobs{{"tile_m", "64"}, {"tile_n", "64"}, {"consumer_warpgroups", "1"}, {"chunk_rows", "40"}},
          Knobs{{"tile_m", "192"}, {"tile_n", "192"}, {"consumer_warpgroups", "3"}},
          Knobs{{"tile_m", "256"}, {"tile_n", "128"}, {"chunk_rows", "4096"}, {"order", "rank"}},
          Knobs{{"stages", "2"}, {"pieces", "2"}, {"piece_bytes", "1024"}, {"raster_group", "1"}},
          Knobs{{"stages", "3"},
                {"pieces", "8"},
                {"piece_bytes", "2048"},
                {"intra_comm", "warp"},
                {"inter_send", "warp"}}}) {
        TestRequest r{"2x3", knobs, {"bias"}, {1001, 392, 328}};
        EXPECT_NO_THROW(r.plan()) << knobs[0].first << " " << knobs[0].second;
    }
}

TEST(Lower, EveryChainOfPointwiseOps) {
    const std::vector<std::string> ops = {"bias", "residual", "scale", "relu", "gelu", "gelu_tanh", "silu", "cast"};
    for (const std::string& first : ops) {
        for (const std::string& second : ops) {
            if (first == second) continue;
            for (bool gather : {true, false}) {
                TestRequest r{"1x2", {}, {first, second}, {300, 72, 64}, gather, gather};
                const Plan plan = r.plan();
                EXPECT_EQ(count(plan, Op::Pointwise, "compute_consumer0"), 2) << first << " " << second;
            }
        }
    }
}

TEST(Lower, ScalePrintsADecimal) {
    TestRequest r{"1x1", {}, {"scale"}};
    Graph g = r.graph();
    g.ops.back().value = 2;
    const Plan plan = lower(g, r.schedule(), r.problem, r.cluster(), r.target());
    EXPECT_NE(print_plan(plan).find("function=scale, value=2.0"), std::string::npos) << "a suffix makes it a C++ float";
}

TEST(Lower, OneRankNeedsNoProtocol) {
    const Plan plan = TestRequest{"1x1"}.plan();
    EXPECT_TRUE(plan.buffers.empty());
    EXPECT_TRUE(plan.flags.empty());
    EXPECT_EQ(count(plan, Op::Enter) + count(plan, Op::WaitFlags) + count(plan, Op::RelayPoll), 0);
}

TEST(Lower, MatmulOfShardedRowsStaysOnItsRank) {
    const Plan plan = TestRequest{"2x2", {}, {"residual"}, {777, 264, 200}, false, false, true}.plan();
    EXPECT_TRUE(plan.buffers.empty());
    EXPECT_EQ(plan.tensors.back().shape[0].print(), "a_rows");
}

TEST(Lower, OneNodeSendsNothing) {
    const Plan plan = TestRequest{"1x4"}.plan();
    EXPECT_EQ(program(plan, "inter_send_sender"), nullptr);
    EXPECT_EQ(count(plan, Op::FifoWrite) + count(plan, Op::RelayTake), 0);
}

TEST(Lower, OneRankANodePushesNothing) {
    const Plan plan = TestRequest{"4x1"}.plan();
    EXPECT_EQ(program(plan, "intra_comm_pusher"), nullptr);
    EXPECT_EQ(count(plan, Op::SignalSet), 0);
}

TEST(Lower, RelayNeverUsesTheFifo) {
    // The relay alone frees FIFO slots: if it waited for one, nobody would.
    const Plan plan = TestRequest{"2x2"}.plan();
    EXPECT_EQ(count(plan, Op::FifoReserve, "protocol_relay"), 0);
    EXPECT_GT(count(plan, Op::FifoReserve, "inter_send_sender"), 0);
}

TEST(Lower, PhaseRolesShareWhateverCtasThereAre) {
    const Plan plan = TestRequest{"2x2", {{"intra_comm_sms", "12"}, {"inter_send_sms", "2"}}}.plan();
    EXPECT_EQ(min_ctas(plan), 1);
    for (std::int64_t ctas : {1, 2, 6, 13, 14, 132}) {
        const ProgramDef *intra = program(plan, "intra_comm_pusher"), *inter = program(plan, "inter_send_sender");
        EXPECT_EQ(at(intra->first_cta, ctas), 0);
        EXPECT_EQ(at(intra->last_cta, ctas), std::min<std::int64_t>(12, ctas));
        EXPECT_EQ(at(inter->last_cta, ctas), std::min<std::int64_t>(14, ctas));
        EXPECT_EQ(at(inter->last_cta, ctas) - at(inter->first_cta, ctas), std::min<std::int64_t>(2, ctas)) << ctas;
    }
}

TEST(Lower, SmsRolesComeFirstAndDoNotCompute) {
    const Plan plan = TestRequest{"2x2", placed("sms", "sms")}.plan();
    EXPECT_EQ(min_ctas(plan), 4);
    EXPECT_EQ(program(plan, "compute_loader")->first_cta, Expr(3));
    EXPECT_EQ(program(plan, "compute_consumer0")->first_cta, Expr(3));
    EXPECT_EQ(program(plan, "intra_comm_pusher")->first_cta, Expr(0));
    EXPECT_EQ(program(plan, "inter_send_sender")->first_cta, Expr(2));
}

TEST(Lower, DefaultStagesGiveWayToMoverBuffers) {
    const Plan plan = TestRequest{"1x2", {{"intra_comm", "warp"}}}.plan();
    for (const Constant& c : plan.consts) {
        if (c.name == "stages") {
            EXPECT_EQ(c.value, 3);
        }
    }
}

TEST(Lower, CopyEngineIsRefusedWithTheReason) {
    const TestRequest r{"1x2", {{"intra_comm", "copy_engine"}}};
    EXPECT_TRUE(r.verify().empty()) << "it verifies";
    try {
        r.plan();
        FAIL();
    } catch (const ScheduleError& e) {
        EXPECT_NE(e.message().find("role intra_comm is placed on the copy engine"), std::string::npos);
        EXPECT_NE(e.hint().find("use phase, sms or warp"), std::string::npos);
    }
}

TEST(Lower, SameRequestSamePlan) {
    const TestRequest r{"2x2", {}, {"bias", "gelu"}};
    EXPECT_EQ(print_plan(r.plan()), print_plan(r.plan()));
}

TEST(Lower, OffsetsBeyondFourGigabytes) {
    const Plan plan =
        TestRequest{"2x8", {}, {}, {262144, 4096, 16384}, true, false, false, "bf16", "sm_90a", 132}.plan();
    EXPECT_GT(workspace_bytes(plan), std::uint64_t{1} << 33);
}

}  // namespace
}  // namespace plait::testing
