// Plans that are refused, by message. Each test plants one fault in a plan that verifies.
#include <gtest/gtest.h>

#include "tests/compiler/passes/request.h"
#include "tests/compiler/verify/plan_edit.h"

namespace plait::testing {
namespace {

class Planted : public ::testing::Test {
protected:
    Plan plan = TestRequest{"2x2"}.plan();
    Target target = TestRequest{"2x2"}.target();

    void expect(const std::string& rule, const std::string& text) {
        const Diagnostics findings = verify_plan(plan, target);
        bool found = false;
        for (const Diagnostic& d : findings) {
            found = found || (d.rule == rule && d.message.find(text) != std::string::npos);
            EXPECT_FALSE(d.hint.empty()) << d.message;
            EXPECT_FALSE(d.where.empty()) << d.message;
        }
        EXPECT_TRUE(found) << rule << ": " << text << "\nfound\n" << print(findings);
    }
};

TEST_F(Planted, TheUntouchedPlanVerifies) { EXPECT_TRUE(verify_plan(plan, target).empty()); }

using CheckNames = Planted;
TEST_F(CheckNames, UnknownNameInAnExpression) {
    set_operand(&plan, "compute_loader", Op::LoadBoxes, "y", "rwo");
    expect("check_names", "`rwo` in `rwo` is not declared");
}
TEST_F(CheckNames, UnknownBarrierAndEdge) {
    set_operand(&plan, "compute_loader", Op::BarrierArrive, "bar", "tile_ful[ring.slot]");
    set_operand(&plan, "compute_loader", Op::BarrierArrive, "edge", "tiel");
    expect("check_names", "barrier `tile_ful` is not declared");
    expect("check_names", "edge `tiel` is not declared");
}
TEST_F(CheckNames, ANameDeclaredTwice) {
    program_body(&plan, "compute_loader")
        ->insert(program_body(&plan, "compute_loader")->begin() + 1, make_statement(Op::Let, {"epoch", "1"}));
    expect("check_names", "`epoch` is declared twice");
}
TEST_F(CheckNames, ALaunchArgumentThatNoTensorGives) {
    plan.params = {{"keys", 64}, {"batch", 0}};
    expect("check_names", "param `keys` is no extent of an input tensor");
    expect("check_names", "param `batch` has max = 0");
}
TEST_F(CheckNames, AssignmentToWhatIsNoVar) {
    set_operand(&plan, "inter_send_sender", Op::Assign, "name", "bank");
    expect("check_names", "`bank` is assigned and no var");
}
TEST_F(CheckNames, AProgramThatNobodyRuns) {
    plan.agents[0].programs.pop_back();
    expect("check_names", "program compute_loader is run by 0 agents");
}
TEST_F(CheckNames, AProgramThatAThreadAndAWarpgroupRun) {
    plan.agents[0].programs.push_back("compute_consumer0");
    expect("check_names", "program compute_consumer0 is run by 2 agents");
}
TEST_F(CheckNames, TheWarpgroupBelongsToPrograms) {
    plan.lets.push_back({"mine", Expr("warpgroup + 1")});
    expect("check_names", "`warpgroup` in `warpgroup + 1` is not declared");
    plan.consts.push_back({"warpgroup", 3});
    expect("check_names", "const `warpgroup` is declared twice");
}
TEST_F(CheckNames, TemplateArgumentsAreConstants) {
    set_operand(&plan, "compute_loader", Op::LoadBoxes, "rows", "rows");
    expect("check_names", "rows of load_boxes is `rows`, not a constant");
}

using CheckMemory = Planted;
TEST_F(CheckMemory, SharedMemoryWithItsParts) {
    plan.shared[1].count = 8;
    expect("check_memory", "a_stage 4 x 16384, b_stage 8 x 32768");
}
TEST_F(CheckMemory, OverlapInTheWorkspace) {
    for (FlagDef& f : plan.flags) {
        if (!f.session) f.offset = 128;
    }
    expect("check_memory", "buffer a_full");
    expect("check_memory", "overlap in the workspace");
}
TEST_F(CheckMemory, PutBeyondTheBuffer) {
    plan.buffers[0].shape[1] -= 1;
    expect("check_memory", "put_bytes writes bytes");
}

using CheckRegisters = Planted;
TEST_F(CheckRegisters, MoreThanTheSmHas) {
    plan.consumer_registers = 240;
    expect("check_registers", "128 x 72 + 2 x 128 x 240 = 70656 registers, a launch of 384 threads gets 64512");
}
TEST_F(CheckRegisters, AccumulatorBeyondItsShare) {
    set_operand(&plan, "compute_consumer0", Op::AccDeclare, "rows", "128");
    expect("check_registers", "accumulator of 128 x 256 takes 256 registers a thread, 184 are left of 216");
}
TEST_F(CheckRegisters, InstructionBeyondWhatTheLaunchGives) {
    plan.threads = 512;
    set_operand(&plan, "compute_consumer0", Op::AccDeclare, "cols", "208");
    expect("check_registers", "a matrix instruction of 208 columns takes 130 registers, a launch of 512 threads gives 128");
}

using CheckMaps = Planted;
TEST_F(CheckMaps, BoxesBeyondTmasLimits) {
    plan.maps[0].box = {128, 512, 1};
    expect("check_maps", "box [128, 512, 1] has an edge outside 1..256");
    expect("check_maps", "a box row has 256 bytes");
}
TEST_F(CheckMaps, StridesOfOddBytes) {
    plan.maps[0].stride[0] = Expr("K * 2 + 2");
    expect("check_maps", "is 402 bytes, not a multiple of 16");
}
TEST_F(CheckMaps, CopiesOtherThanEncoded) {
    set_operand(&plan, "compute_consumer1", Op::StoreBox, "rows", "32");
    expect("check_maps", "store_box copies boxes of 32 x 64, map c_map is encoded for 64 x 64");
}
TEST_F(CheckMaps, AMapWithoutRowsInUse) {
    for (const char* program : {"compute_loader", "compute_consumer0", "compute_consumer1"})
        set_operand(&plan, program, Op::If, "cond", "rows >= 0");
    expect("check_maps", "whose extent is");
}

using CheckAgents = Planted;
TEST_F(CheckAgents, OpsOfTheOtherKind) {
    program_body(&plan, "compute_loader")->push_back(make_statement(Op::AgentSync, {}));
    expect("check_agents", "agent_sync runs in warpgroup agents, agent loader is a thread");
    program_body(&plan, "compute_consumer0")->push_back(make_statement(Op::RelayIdle, {}));
    expect("check_agents", "relay_idle runs in one-thread agents, agent consumer0 is a warpgroup");
}
TEST_F(CheckAgents, TwoAgentsOnOneWarp) {
    plan.agents[1].warp = 0;
    expect("check_agents", "agents loader and relay both stand in warp 0 of warpgroup 0");
    plan.agents[2].warpgroup = 3;
    expect("check_agents", "agent consumer0 stands in warpgroup 3, a CTA has 3");
}

using CheckBarriers = Planted;
TEST_F(CheckBarriers, ArrivalsThatNobodyMakes) {
    plan.barriers[0].thread_arrivals = 2;
    expect("check_barriers",
           "a phase of ab_full counts 2 thread and 0 warpgroup arrivals, but agents arrive from threads [loader] and "
           "warpgroups []");
}
TEST_F(CheckBarriers, BytesThatNeverCome) {
    set_operand(&plan, "compute_loader", Op::BarrierExpect, "bytes", "49168");
    expect("check_progress", "16 bytes to come");
}
TEST_F(CheckBarriers, ExpectingBeforeTheSlotIsFree) {
    each(program_body(&plan, "compute_loader"), Op::BarrierExpect, [](auto* list, std::size_t i) {
        std::swap((*list)[i - 1], (*list)[i]);
        return true;
    });
    expect("check_barriers", "barrier_expect on ab_full[ab.slot] whose phase before may still count bytes");
}

using CheckEdges = Planted;
TEST_F(CheckEdges, SignalBeforeTheStoresHaveLanded) {
    remove(&plan, "intra_comm_pusher", Op::BulkWait);
    expect("check_edges", "signal_set signals edge a_ready (bulk, flag, system, tma) after put_bytes");
}
TEST_F(CheckEdges, WaitingForReadsIsNotWaitingForWrites) {
    each(program_body(&plan, "intra_comm_pusher"), Op::BulkWait, [](auto* list, std::size_t i) {
        (*list)[i] = make_statement(Op::BulkWaitRead, {"0"});
        return true;
    });
    expect("check_edges", "without bulk_wait of 0 pending groups between");
}
TEST_F(CheckEdges, ScopeTooSmall) {
    set_operand(&plan, "intra_comm_pusher", Op::SignalSet, "scope", "Gpu");
    set_operand(&plan, "inter_send_sender", Op::FifoPublish, "scope", "Cta", 1);
    expect("check_edges", "signal_set at scope Gpu, edge a_ready (bulk, flag, system, tma) needs System");
    expect("check_edges", "fifo_publish at scope Cta");
}
TEST_F(CheckEdges, NoProxyFenceBehindAnAcquire) {
    remove(&plan, "compute_loader", Op::FenceAsyncGlobal);
    expect("check_edges",
           "uses what wait_flags on edge a_ready (bulk, flag, system, tma) waited for, without fence_async_global "
           "between");
}
TEST_F(CheckEdges, AWaitWithoutASignal) {
    remove_all(&plan, "intra_comm_pusher", Op::SignalSet);
    expect("check_edges", "wait_flags waits on edge a_ready (bulk, flag, system, tma), which nothing signals");
}
TEST_F(CheckEdges, AnEdgeThatCannotBeLowered) {
    for (EdgeDef& e : plan.edges) {
        if (e.name == "a_ready") e.scope = EdgeScope::Cta;
    }
    expect("check_edges", "edge a_ready (bulk, flag, cta, tma) cannot be lowered");
}

using CheckReuse = Planted;
TEST_F(CheckReuse, BoxesOfTheEpilogue) {
    remove(&plan, "compute_consumer0", Op::FenceAsyncShared);
    expect("check_reuse", "without fence_async_shared between");
    remove(&plan, "compute_consumer1", Op::BulkWaitRead);
    expect("check_reuse", "stage_box overwrites a box without waiting until its last store has read it");
}
TEST_F(CheckReuse, OneGroupTooFewIsWaitedFor) {
    set_operand(&plan, "compute_consumer0", Op::BulkWaitRead, "pending", "2", 2);
    expect("check_reuse", "stage_box overwrites c_box[0] while it may still be read or written");
}
TEST_F(CheckReuse, PieceOverwrittenWhileItIsPut) {
    plan.consts.push_back({"spare", 0});
    remove(&plan, "intra_comm_pusher", Op::BulkWaitRead);
    for (Constant& c : plan.consts) {
        if (c.name == "piece_bytes") c.value = 1024;
    }
    expect("check_reuse", "load_bytes overwrites a_stage[fill.slot] while it may still be read or written");
}
TEST_F(CheckReuse, LeavingWithStoresInFlight) {
    remove(&plan, "compute_consumer0", Op::BulkWait);
    expect("check_reuse", "program compute_consumer0 can end while store_box is in flight");
}
TEST_F(CheckReuse, MatrixOperationsWithoutTheirFence) {
    remove(&plan, "compute_consumer0", Op::MmaBegin);
    expect("check_reuse", "mma_issue without mma_begin before it");
}

}  // namespace
}  // namespace plait::testing
