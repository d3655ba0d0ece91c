// Clusters: requests that are refused, plans that are refused, each by message, and what the interpreter finds where
// the other rules are left out.
#include <gtest/gtest.h>

#include "compiler/verify/interpreter/interpret.h"
#include "tests/compiler/passes/attention_request.h"
#include "tests/compiler/passes/request.h"
#include "tests/compiler/verify/plan_edit.h"

namespace plait::testing {
namespace {

TestRequest clustered(const std::string& along = "m") {
    return {"1x1",
            {{"cluster", "2"}, {"cluster_along", along}, {"tile_m", "128"}, {"tile_n", "256"}, {"consumer_warpgroups", "2"}},
            {},
            {777, 264, 200},
            false};
}

bool finds(const Diagnostics& findings, const std::string& rule, const std::string& text) {
    for (const Diagnostic& d : findings) {
        EXPECT_FALSE(d.hint.empty()) << d.message;
        EXPECT_FALSE(d.where.empty()) << d.message;
        if (d.rule == rule && d.message.find(text) != std::string::npos) return true;
    }
    return false;
}

TEST(CheckCluster, RefusesWhatDoesNotKeepStep) {
    TestRequest gathers{"2x2", {{"cluster", "2"}}};
    EXPECT_TRUE(finds(gathers.verify(), "check_cluster",
                      "cluster = 2: rows are gathered over 4 ranks, and CTAs take tiles one by one"))
        << print(gathers.verify());
    gathers.topology = "1x1";  // nothing to gather: tiles are walked
    EXPECT_TRUE(gathers.verify().empty()) << print(gathers.verify());

    AttentionRequest attention;
    Schedule schedule = attention.schedule();
    schedule.set("cluster", "2");
    const Diagnostics refused =
        verify_request(attention.graph(), schedule, attention.problem(), attention.cluster(), attention.target());
    EXPECT_TRUE(
        finds(refused, "check_cluster", "cluster = 2: row tiles of attention walk different numbers of key blocks"))
        << print(refused);

    ScheduleFile file = load_schedule_file(PLAIT_SOURCE_DIR "/schedules/grouped_matmul.json");
    file.schedule.set("cluster", "2");
    const Topology topology = topology_of(file);
    const Diagnostics grouped =
        verify_request(file.graph, file.schedule, file.problem, topology, Target::make("sm_90a", topology));
    EXPECT_TRUE(
        finds(grouped, "check_cluster", "neighbouring tiles of a grouped matmul may belong to different groups"))
        << print(grouped);
}

TEST(CheckCluster, RefusesATargetOfFewerSms) {
    TestRequest r = clustered();
    r.sms = 1;
    EXPECT_TRUE(finds(r.verify(), "check_cluster", "a cluster of 2 CTAs needs 2 SMs, host has 1")) << print(r.verify());
    r.sms = 2;
    EXPECT_TRUE(r.verify().empty()) << print(r.verify());
}

class ClusterPlans : public ::testing::TestWithParam<std::string> {
protected:
    Plan plan = clustered(GetParam()).plan();
    Target target = clustered().target();

    void expect(const std::string& rule, const std::string& text) {
        const Diagnostics findings = verify_plan(plan, target);
        EXPECT_TRUE(finds(findings, rule, text)) << rule << ": " << text << "\nfound\n" << print(findings);
    }
    // Progress alone: what is found where no other rule looks.
    void expect_interpreted(const std::string& rule, const std::string& text) {
        const Diagnostics findings = interpreter::interpret(interpreter::choose_runs(plan, target));
        EXPECT_TRUE(finds(findings, rule, text)) << rule << ": " << text << "\nfound\n" << print(findings);
    }
    void arrive_at_own_cta() {
        for (const char* consumer : {"compute_consumer0", "compute_consumer1"}) {
            each(program_body(&plan, consumer), Op::ClusterArrive, [](std::vector<Statement>* body, std::size_t i) {
                (*body)[i] =
                    make_statement(Op::BarrierArrive, {(*body)[i].expr("bar").print(), (*body)[i].word("edge")});
                return true;
            });
        }
    }
};

TEST_P(ClusterPlans, VerifyForOddNumbersOfTiles) {
    for (const Problem& problem :
         {Problem{777, 264, 200}, Problem{777, 1032, 72}, Problem{1, 8, 8}, Problem{512, 512, 64}}) {
        TestRequest r = clustered(GetParam());
        r.problem = problem;
        r.transpose_b = problem.n == 264;
        for (const char* tile_n : {"256", "80"}) {
            r.knobs.push_back({"tile_n", tile_n});
            EXPECT_NO_THROW(r.plan()) << problem.n << " columns, tile_n " << tile_n;
        }
    }
}
TEST_P(ClusterPlans, AnArriveAtItsOwnCtaFreesNothing) {
    arrive_at_own_cta();
    expect("check_edges", "barrier_arrive on edge ab_free (mma, barrier, cluster, overwrite), which it cannot signal");
    expect("check_barriers",
           "a phase of ab_empty counts 0 thread and 4 warpgroup arrivals, but agents arrive from threads [] and "
           "warpgroups [consumer0, consumer1]");
    expect_interpreted("check_progress", "deadlock");
}
TEST_P(ClusterPlans, ALoaderThatWaitsForItsOwnConsumersAlone) {
    arrive_at_own_cta();
    for (BarrierDef& barrier : plan.barriers) {
        if (barrier.name == "ab_empty") barrier.warpgroup_arrivals = 2;
    }
    expect_interpreted("check_reuse", "load_multicast overwrites");
}
TEST_P(ClusterPlans, ArrivalsOfBothCtasAreCounted) {
    for (BarrierDef& barrier : plan.barriers) {
        if (barrier.name == "ab_empty") barrier.warpgroup_arrivals = 2;
    }
    expect("check_barriers",
           "counts 0 thread and 2 warpgroup arrivals, but agents arrive from threads [] and warpgroups [consumer0, "
           "consumer1] of 2 CTAs");
}
TEST_P(ClusterPlans, AShareOfHalfAnAtom) {
    set_operand(&plan, "compute_loader", Op::LoadMulticast, "rows", "24");
    expect("check_cluster", "load_multicast splits 24 rows among 2 CTAs: 12 each, and the swizzle repeats after 8");
    expect("check_maps", "load_multicast copies boxes of 12 x 64");
}
TEST_P(ClusterPlans, AnOperationOfMoreCtasThanTheCluster) {
    set_operand(&plan, "compute_loader", Op::LoadMulticast, "ctas", "4");
    expect("check_cluster", "load_multicast of 4 CTAs in a cluster of 2");
}
TEST_P(ClusterPlans, AProgramThatSplitsAnOddCtaOff) {
    for (ProgramDef& program : plan.programs) program.first_cta = Expr(1);
    expect("check_cluster", "program compute_loader runs on CTAs [1, ctas), which may split a cluster of 2");
}
TEST_P(ClusterPlans, ACtaThatEndsBeforeItsPeerHasArrived) {
    remove(&plan, "compute_loader", Op::BarrierWait, 1);
    expect("check_reuse", "can end while another one of its cluster arrives at its barriers");
}
TEST_P(ClusterPlans, BothCtasOnOneTile) {
    const std::string own = GetParam() == "m" ? "row" : "col", part = "cta % cluster";
    for (const ProgramDef& program : plan.programs) {
        each(program_body(&plan, program.name), Op::Let, [&](std::vector<Statement>* body, std::size_t i) {
            if ((*body)[i].word("name") != own) return false;
            std::string value = (*body)[i].expr("value").print();
            (*body)[i] = make_statement(Op::Let, {own, value.replace(value.find(part), part.size(), "0")});
            return true;
        });
    }
    expect("check_exactly_once", "tensor c of rank 0");
}

INSTANTIATE_TEST_SUITE_P(Along, ClusterPlans, ::testing::Values("m", "n"), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace plait::testing
