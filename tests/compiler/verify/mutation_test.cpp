// Every ordering action of a plan is removed, and every scope narrowed by one step: the verifier finds each of them,
// before any code is emitted. (The simulator's own mutation test is apart.)
#include <gtest/gtest.h>

#include "tests/compiler/passes/request.h"
#include "tests/compiler/verify/plan_edit.h"

namespace plait::testing {
namespace {

bool is_ordering(Op op) {
    const Effect effect = op_spec(op).effect;
    return effect == Effect::Signal || effect == Effect::Wait || effect == Effect::Fence;
}

struct Mutants {
    Plan plan;
    Target target;
    int count = 0;
    std::vector<std::string> survivors;

    void judge(const std::string& what) {
        count += 1;
        if (verify_plan(plan, target).empty()) survivors.push_back(what);
    }

    void visit(std::vector<Statement>* body, const std::string& program) {
        for (std::size_t i = 0; i < body->size(); ++i) {
            const Statement original = (*body)[i];
            const std::string name = op_spec(original.op).mnemonic + " in " + program;
            if (is_ordering(original.op) && original.op != Op::FifoReserve) {  // fifo_reserve declares a name
                body->erase(body->begin() + long(i));
                judge("removed " + name);
                body->insert(body->begin() + long(i), original);
            }
            if (original.has("scope")) {
                for (Operand& o : (*body)[i].operands) {
                    if (o.name == "scope") o.word = o.word == "System" ? "Gpu" : "Cta";
                }
                judge("narrowed " + name);
                (*body)[i] = original;
            }
            if (original.op == Op::ClusterArrive) {
                (*body)[i] = make_statement(Op::BarrierArrive, {original.expr("bar").print(), original.word("edge")});
                judge("narrowed " + name);
                (*body)[i] = original;
            }
            visit(&(*body)[i].body, program);
        }
    }
};

class VerifierMutation : public ::testing::TestWithParam<TestRequest> {};

TEST_P(VerifierMutation, EveryOrderingActionIsMissed) {
    Mutants mutants{GetParam().plan(), GetParam().target(), 0, {}};
    for (std::size_t p = 0; p < mutants.plan.programs.size(); ++p) {
        mutants.visit(&mutants.plan.programs[p].body, mutants.plan.programs[p].name);
    }
    EXPECT_GT(mutants.count, 20);
    for (const std::string& survivor : mutants.survivors) ADD_FAILURE() << survivor;
}

const std::vector<std::pair<std::string, std::string>> kSmall = {
    {"tile_m", "64"}, {"tile_n", "64"},        {"consumer_warpgroups", "1"}, {"stages", "2"},
    {"pieces", "2"},  {"piece_bytes", "1024"}, {"chunk_rows", "32"}};

TestRequest clustered(const char* along) {
    return {"1x1", {{"cluster", "2"}, {"cluster_along", along}, {"tile_m", "128"}, {"tile_n", "128"}}, {}, {777, 264, 200}, false};
}

INSTANTIATE_TEST_SUITE_P(Plans, VerifierMutation,
                         ::testing::Values(TestRequest{"2x2", {}, {}, {777, 264, 1024}},
                                           TestRequest{"2x2", placed("warp", "warp"), {}, {777, 264, 1024}},
                                           TestRequest{"2x2", placed("sms", "sms"), {}, {777, 264, 1024}},
                                           clustered("m"), clustered("n"),
                                           TestRequest{"3x1", kSmall, {}, {200, 136, 72}},
                                           TestRequest{"2x2", kSmall, {"bias"}, {200, 136, 72}}));

}  // namespace
}  // namespace plait::testing
