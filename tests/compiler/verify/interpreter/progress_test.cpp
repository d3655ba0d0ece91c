// What only a run of all ranks can find: deadlocks, tiles stored twice or never, reads that nothing orders, and faults
// of the launch protocol.
#include <gtest/gtest.h>

#include "compiler/verify/interpreter/interpret.h"
#include "tests/compiler/passes/request.h"
#include "tests/compiler/verify/plan_edit.h"

namespace plait::testing {
namespace {

class Interpreted : public ::testing::Test {
protected:
    Plan plan = TestRequest{"2x2"}.plan();
    Target target = TestRequest{"2x2"}.target();

    void expect(const std::string& rule, const std::string& text) {
        const Diagnostics findings = verify_plan(plan, target);
        bool found = false;
        for (const Diagnostic& d : findings)
            found = found || (d.rule == rule && d.message.find(text) != std::string::npos);
        EXPECT_TRUE(found) << rule << ": " << text << "\nfound\n" << print(findings);
    }
};

using CheckProgress = Interpreted;
TEST_F(CheckProgress, ReportsWhoWaitsForWhatAndWhatItSees) {
    remove(&plan, "intra_comm_pusher", Op::SignalSet);  // own chunks; arrived ones are still announced
    const Diagnostics findings = verify_plan(plan, target);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_NE(findings[0].message.find("deadlock"), std::string::npos);
    EXPECT_NE(findings[0].message.find("agent loader waits at compute_loader"), std::string::npos)
        << findings[0].message;
    EXPECT_NE(findings[0].message.find(">= 3, sees 2"), std::string::npos) << findings[0].message;
}
TEST_F(CheckProgress, TwoRolesThatWaitForEachOther) {
    // The loader of few CTAs forwards before it sends: every rank waits for the others' arrivals.
    std::vector<std::string>& programs = plan.agents[0].programs;
    ASSERT_EQ(programs[0], "inter_send_sender");
    std::swap(programs[0], programs[1]);
    expect("check_progress", "deadlock");
}
TEST_F(CheckProgress, ArrivalsThatNobodyForwards) {
    remove(&plan, "protocol_relay", Op::RelayTake);
    expect("check_progress", "wait_flag a_ready[");
}
TEST_F(CheckProgress, RelayThatLeavesEarly) {
    set_operand(&plan, "protocol_relay", Op::BreakIf, "cond", "relay.finished >= 0");
    expect("check_progress", "deadlock");
}
TEST_F(CheckProgress, LoopWithoutEnd) {
    remove(&plan, "protocol_relay", Op::RelayIdle);
    remove(&plan, "protocol_relay", Op::BreakIf);
    expect("check_progress", "no end after");
}
TEST_F(CheckProgress, IndexOutside) {
    set_operand(&plan, "intra_comm_pusher", Op::SignalSet, "index", "world * chunks_max + chunk");
    expect("check_progress", "flag");
}

// Rows may lie apart: a copy that takes the gap for data, or that forgets where a row belongs, is found.
using CheckPitch = Interpreted;
TEST_F(CheckPitch, ACopyAcrossTheGapBetweenRows) {
    set_operand(&plan, "intra_comm_pusher", Op::Let, "value", "bytes", 6);
    expect("check_memory", "rows of 400 bytes lie 416 apart");
}
TEST_F(CheckPitch, RowsThatAreAllPutInOnePlace) {
    set_operand(&plan, "intra_comm_pusher", Op::PutBytes, "offset", "target + at");
    expect("check_visibility", "of a_full of rank 2 that nobody has written");
}
TEST_F(CheckPitch, AMapThatTakesRowsToBeContiguous) {
    for (MapDef& map : plan.maps) {
        if (map.name == "c_map") map.stride = {Expr("N * 2"), Expr("shard * N * 2")};
    }
    expect("check_exactly_once", "written");
}

using CheckExactlyOnce = Interpreted;
TEST_F(CheckExactlyOnce, ATileNobodyStores) {
    set_operand(&plan, "compute_consumer1", Op::If, "cond", "rows > 64");
    set_operand(&plan, "compute_consumer1", Op::If, "cond", "rows > 0");
    for (LetDef& let : plan.lets) {
        if (let.name == "tiles") let.value = Expr("world * shard_tiles - 1");
    }
    expect("check_exactly_once", "are written 0 times");
}
TEST_F(CheckExactlyOnce, ATileStoredTwice) {
    set_operand(&plan, "compute_consumer0", Op::StoreBox, "y", "row + 64");
    expect("check_exactly_once", "written");
}
TEST_F(CheckExactlyOnce, RowsOfANeighbour) {
    for (MapDef& map : plan.maps) {
        if (map.name == "c_map" && map.index == 0) map.extent[1] = Expr("shard + 8");
    }
    expect("check_exactly_once", "written 2 times");
}

using CheckVisibility = Interpreted;
TEST_F(CheckVisibility, LoadOfRowsThatNobodyWaitedFor) {
    set_operand(&plan, "compute_loader", Op::WaitFlags, "count", "1");
    expect("check_visibility", "load_boxes reads bytes");
}
TEST_F(CheckVisibility, FlagsOfTheLaunchBefore) {
    set_operand(&plan, "compute_loader", Op::WaitFlags, "value", "epoch - 1");
    expect("check_visibility", "load_boxes reads bytes");
}
TEST_F(CheckVisibility, LoadFromTheOtherBank) {
    set_operand(&plan, "compute_loader", Op::Let, "value", "(epoch + 1) % 2");
    expect("check_visibility", "that nobody has written in this launch");
}
TEST_F(CheckVisibility, NicReadsWhatIsNotStaged) {
    set_operand(&plan, "inter_send_sender", Op::FifoWrite, "offset", "target + piece_bytes", 1);
    expect("check_visibility", "the NIC of rank");
}
TEST_F(CheckVisibility, OperandsBeforeTheirBarrier) {
    remove(&plan, "compute_consumer0", Op::BarrierWait, 1);
    expect("check_visibility", "mma_issue reads a slot");
}
TEST_F(CheckVisibility, AccumulatorInFlight) {
    set_operand(&plan, "compute_consumer0", Op::MmaWait, "pending", "1");
    expect("check_visibility", "mma_wait names acc, which the 1 youngest groups");
}

using CheckProtocol = Interpreted;
TEST_F(CheckProtocol, PutsIntoABankThatIsStillRead) {
    // A mistake in the index: the rank waits for itself in the place of its peer.
    set_operand(&plan, "intra_comm_pusher", Op::WaitFlag, "index", "rank");
    expect("check_protocol", "put_bytes into a bank of rank");
}
TEST_F(CheckProtocol, SendsIntoABankThatIsStillRead) {
    set_operand(&plan, "inter_send_sender", Op::WaitFlag, "index", "rank");
    expect("check_protocol", "into a bank of rank");
}
TEST_F(CheckProtocol, EntrySignalThatIsNeverSent) {
    set_operand(&plan, "protocol_relay", Op::SignalSet, "index", "(rank + 1) % world");
    expect("check_protocol", "entry signal of rank");
}
TEST_F(CheckProtocol, LeavingBeforeLocalCompletion) {
    remove(&plan, "inter_send_sender", Op::FifoWait);
    expect("check_protocol", "can leave before its put");
}
TEST_F(CheckProtocol, FlagsThatGoBack) {
    set_operand(&plan, "intra_comm_pusher", Op::SignalSet, "value", "epoch - 2");
    expect("check_protocol", "takes flag a_ready");
}

TEST(ChooseRuns, LargeProblemsShrinkAndKeepTheirRemainders) {
    TestRequest r{"2x8", {}, {}, {8192, 4104, 8200}, true, false, false, "bf16", "sm_90a", 132};
    const interpreter::Runs runs = interpreter::choose_runs(r.plan(), r.target());
    EXPECT_NE(runs.scaled.find("for 8200"), std::string::npos) << runs.scaled;
    for (const Constant& c : runs.plan.consts) {
        const std::int64_t tile = c.name == "K" ? 64 : c.name == "N" ? 256 : 0, old = c.name == "K" ? 8200 : 4104;
        if (tile != 0) {
            EXPECT_EQ(c.value % tile, old % tile) << c.name;
            EXPECT_LT(c.value, old) << c.name;
        }
    }
    bool none = false, ragged = false;
    for (const interpreter::Run& run : runs.runs) {
        none = none || run.m == 0;
        ragged = ragged || run.m % 16 != 0;
        EXPECT_LE(run.m, 8192);
    }
    EXPECT_TRUE(none && ragged);
}

TEST(Region, RemembersTheLastWriterOfEachByte) {
    interpreter::Region region;
    region.write(0, 100, 1);
    region.write(40, 60, 2);
    region.write(200, 300, 3);
    std::string seen;
    region.each(30, 250, [&](int event, std::int64_t first, std::int64_t last) {
        seen += std::to_string(event) + ":" + std::to_string(first) + "-" + std::to_string(last) + " ";
    });
    EXPECT_EQ(seen, "1:30-40 2:40-60 1:60-100 -1:100-200 3:200-250 ");
    region.write(0, 300, 4);
    seen.clear();
    region.each(0, 300, [&](int event, std::int64_t first, std::int64_t last) {
        seen += std::to_string(event) + ":" + std::to_string(first) + "-" + std::to_string(last) + " ";
    });
    EXPECT_EQ(seen, "4:0-300 ");
}

TEST(Cover, FindsHolesOverlapsAndStoresOutside) {
    interpreter::Cover cover;
    cover.add(0, 64, 0, 64);
    cover.add(0, 64, 64, 8);
    EXPECT_EQ(cover.problem(64, 72), "");
    EXPECT_NE(cover.problem(65, 72).find("rows [64, 65) columns [0, 64) are written 0 times"), std::string::npos)
        << cover.problem(65, 72);
    EXPECT_NE(cover.problem(60, 72).find("outside"), std::string::npos);
    cover.add(10, 1, 70, 2);
    EXPECT_NE(cover.problem(64, 72).find("2 times"), std::string::npos);
    EXPECT_EQ(interpreter::Cover().problem(0, 72), "");
}

}  // namespace
}  // namespace plait::testing
