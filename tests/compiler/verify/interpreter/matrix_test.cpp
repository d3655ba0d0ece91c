// Matrix operations in flight: what may touch their registers, and when the slots they read are handed back.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/ir/target.h"
#include "compiler/ir/text.h"
#include "compiler/verify/verify.h"
#include "runtime/base/files.h"
#include "tests/compiler/verify/plan_edit.h"

namespace plait::testing {
namespace {

// tests/compiler/ir/plans/attention_overlap.plan: two products in flight, two register operands.
class InFlight : public ::testing::Test {
protected:
    Plan plan = parse_plan(read_file(PLAIT_SOURCE_DIR "/tests/compiler/ir/plans/attention_overlap.plan"));
    std::vector<Statement>* body = program_body(&plan, "compute_consumer");

    Diagnostics verify() {
        Topology topology = Topology::from_file(PLAIT_SOURCE_DIR "/schedules/topologies/h200_1x1.json");
        Target target = Target::make("sm_90a", topology);
        target.sms = 2;
        return verify_plan(plan, target);
    }
    void expect(const std::string& rule, const std::string& text) {
        const Diagnostics findings = verify();
        bool found = false;
        for (const Diagnostic& d : findings)
            found = found || (d.rule == rule && d.message.find(text) != std::string::npos);
        EXPECT_TRUE(found) << rule << ": " << text << "\nfound\n" << print(findings);
    }
    // The last statement with this op, and the n before it of the same list.
    void move_earlier(Op op, int n) {
        std::vector<Statement>* list = nullptr;
        std::size_t at = 0;
        each(body, op, [&](auto* in, std::size_t i) {
            list = in, at = i;
            return false;
        });
        for (; n > 0; --n, --at) std::swap((*list)[at], (*list)[at - 1]);
    }
};

TEST_F(InFlight, OverlappedPlanIsSound) { EXPECT_EQ(print(verify()), ""); }

TEST_F(InFlight, OperandThatIsStillRead) {
    // The next weights are packed in front of the wait for the product that reads these.
    each(body, Op::Settle, [](std::vector<Statement>* list, std::size_t i) {
        std::rotate(list->begin() + long(i) + 1, list->begin() + long(i) + 4, list->begin() + long(i) + 5);
        return true;
    });
    expect("check_visibility", "as_operand writes operand even while matrix operations that read it are in flight");
}

TEST_F(InFlight, WaitThatNamesTooMuch) {
    set_operand(&plan, "compute_consumer", Op::MmaWait, "acc", "out", 1);
    expect("check_visibility", "mma_wait names out, which the 1 youngest groups");
}

TEST_F(InFlight, ValueThatNoWaitNames) {
    // Everything is complete, and the compiler was not told about the accumulator.
    set_operand(&plan, "compute_consumer", Op::MmaWait, "acc", "even", 2);
    expect("check_visibility", "scale_rows touches out while matrix operations that use it are in flight");
}

TEST_F(InFlight, AccumulatorOfTheYoungerGroup) {
    // The output is divided in front of the last wait.
    move_earlier(Op::DivideRows, 4);
    expect("check_visibility", "divide_rows touches out while");
}

TEST_F(InFlight, SlotReleasedBeforeTheWaitOfItsReader) {
    // Values are handed back after a wait that leaves their product in flight.
    each(body, Op::Settle, [](std::vector<Statement>* list, std::size_t i) {
        std::rotate(list->begin() + long(i), list->begin() + long(i) + 2, list->begin() + long(i) + 3);
        return true;
    });
    expect("check_reuse", "releases v_stage[");
    expect("check_reuse", "while a matrix operation of this agent reads it");
}

TEST_F(InFlight, RegistersAreFencedAgainAfterTheyWereTouched) {
    // Without it the scaled output, and the packed operand, are not ordered before the product.
    remove(&plan, "compute_consumer", Op::MmaBegin, 2);
    expect("check_reuse", "mma_issue_operand without mma_begin before it");
}

TEST_F(InFlight, BoxesBeyondTheArray) {
    set_operand(&plan, "compute_consumer", Op::MmaIssue, "boxes", "5");
    const Diagnostics findings = verify();
    EXPECT_NE(print(findings).find("slots from"), std::string::npos) << print(findings);
}

TEST_F(InFlight, TurnThatIsNeverPassed) {
    body->insert(body->begin(), make_statement(Op::TurnWait, {"0"}));
    expect("check_progress", "turn_wait 0");
}

TEST_F(InFlight, TurnsInOrder) {
    const auto in_warpgroup = [&](const char* condition, Op op) {
        body->insert(body->begin(), make_statement(Op::If, {condition}, {make_statement(op, {"0"})}));
    };
    in_warpgroup("warpgroup == 1", Op::TurnWait);
    in_warpgroup("warpgroup == 2", Op::TurnPass);
    EXPECT_EQ(print(verify()), "");
    in_warpgroup("warpgroup == 2", Op::TurnPass);
    expect("check_progress", "turn 0 is passed twice before it is taken");
}

}  // namespace
}  // namespace plait::testing
