#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "runtime/base/error.h"
#include "tests/compiler/ir/random_plan.h"

namespace plait {
namespace {

const char* const kHeader =
    "plan p target=host, world=4, nodes=2, locals=2, m_max=512, threads=384, producer_registers=40, "
    "consumer_registers=232\n";

std::string error_of(const std::string& body) {
    try {
        parse_plan(kHeader + body);
    } catch (const ScheduleError& error) {
        return error.message();
    }
    return "no error";
}
std::string in_program(const std::string& statements) {
    return "program f role=compute, first_cta=0, last_cta=ctas {\n" + statements + "}\n";
}

TEST(PlanText, RandomPlansRoundTrip) {
    for (unsigned seed = 0; seed < 300; ++seed) {
        const Plan plan = testing::RandomPlan(seed).plan();
        const std::string text = print_plan(plan), bare = print_plan(plan, false);
        const Plan again = parse_plan(text);
        ASSERT_EQ(print_plan(again), bare) << "seed " << seed;  // comments are dropped by the parser
        ASSERT_EQ(print_plan(parse_plan(bare), false), bare) << "seed " << seed;
        ASSERT_EQ(bare.find("//"), std::string::npos);
    }
}

TEST(PlanText, ReadsLikeThePlan) {
    Plan plan;
    plan.name = "tiny";
    plan.target = "host";
    plan.consts = {{"K", 64}};
    plan.lets = {{"shard", "max(ceil_div(M, world), 1)"}};
    plan.tensors = {{"c", "bf16", {"M", "K"}, true}};
    plan.flags = {{"entered", 4, 0, true}};
    plan.edges = {{"a_ready", ProducerKind::Bulk, SignalKind::Flag, EdgeScope::System, ConsumerKind::Tma, "a_full"}};
    plan.agents = {{"loader", AgentKind::Thread, 0, 1, {"push", "load"}}};
    Statement loop = make_statement(Op::For, {"q", "0", "world", "1"},
                                    {make_statement(Op::WaitFlag, {"a_ready", "q", "epoch", "System", "a_ready"})});
    loop.comment = "all shards";
    plan.programs = {{"load", "compute", 0, "ctas", "ag_gemm.py:3", {loop}}};
    EXPECT_EQ(print_plan(plan),
              "plan tiny target=host, world=1, nodes=1, locals=1, m_max=0, threads=0, producer_registers=0, "
              "consumer_registers=0\n"
              "\n"
              "const K = 64\n"
              "\n"
              "let shard = max(ceil_div(M, world), 1)\n"
              "\n"
              "tensor c dtype=bf16, shape=[M, K], output=1\n"
              "\n"
              "flags entered count=4, offset=0, session=1\n"
              "\n"
              "edge a_ready producer=bulk, signal=flag, scope=system, consumer=tma, memory=a_full\n"
              "\n"
              "agent loader kind=thread, warpgroup=0, warp=1, programs=[push, load]\n"
              "\n"
              "// ag_gemm.py:3\n"
              "program load role=compute, first_cta=0, last_cta=ctas {\n"
              "  // all shards\n"
              "  for var=q, from=0, to=world, step=1 {\n"
              "    wait_flag flag=a_ready, index=q, value=epoch, scope=System, edge=a_ready\n"
              "  }\n"
              "}\n");
}

TEST(PlanText, RejectsBadTextWithLineAndColumn) {
    EXPECT_EQ(error_of("hello\n"),
              "plan text, line 2, column 1: expected const, param, let, tensor, buffer, flags, map, shared, barrier, edge, "
              "role, agent or program");
    EXPECT_EQ(error_of("const K 5\n"), "plan text, line 2, column 9: expected `=`, found `5`");
    EXPECT_EQ(error_of("const K = x\n"),
              "plan text, line 2, column 11: the constant's value: `x` is not a 64-bit integer");
    EXPECT_EQ(error_of("let a = b +\n"), "plan text, line 2, column 12: the value: expected a value, found the end");
    EXPECT_EQ(error_of("let a = b c\n"), "plan text, line 2, column 11: expected the end of the line, found `c`");
    EXPECT_EQ(error_of("\n// x\ntensor a type=bf16\n"), "plan text, line 4, column 10: expected `dtype=`");
    EXPECT_EQ(error_of("buffer a dtype=bf16, shape=[1, x], offset=0\n"),
              "plan text, line 2, column 32: shape: `x` is not a 64-bit integer");
    EXPECT_EQ(error_of("buffer a dtype=bf16, shape=[1], offset=-1\n"),
              "plan text, line 2, column 40: offset: `-1` is not an unsigned 64-bit integer");
    EXPECT_EQ(error_of("edge e producer=bulk, signal=smoke\n"),
              "plan text, line 2, column 30: signal: `smoke` is none of flag, counter, inline_tag, barrier, fifo");
    EXPECT_EQ(error_of("agent a kind=thread, warpgroup=99999999999, warp=0, programs=[]\n"),
              "plan text, line 2, column 32: warpgroup: 99999999999 is out of range");
    EXPECT_EQ(error_of("shared 5\n"), "plan text, line 2, column 8: expected a name, found `5`");
    EXPECT_EQ(error_of(in_program("  wait_flg flag=a\n")),
              "plan text, line 3, column 3: no op `wait_flg`, the nearest is `wait_flag`");
    EXPECT_EQ(error_of(in_program("  let name=a\n")), "plan text, line 3, column 13: let: expected `, value=`");
    EXPECT_EQ(error_of(in_program("  let name=a, value=1 bulk_commit\n")),
              "plan text, line 3, column 23: expected the end of the line, found `bulk_commit`");
    EXPECT_EQ(error_of(in_program("  barrier_wait bar=a + 1, parity=0, edge=e\n")),
              "plan text, line 3, column 20: barrier_wait: bar: `a + 1` does not refer to a barrier, write name or "
              "name[index]");
    EXPECT_EQ(error_of(in_program("  signal_set flag=f, peer=0, index=0, value=1, scope=Galaxy, edge=e\n")),
              "plan text, line 3, column 54: signal_set: scope: `Galaxy` is none of Cta, Gpu, System");
    EXPECT_EQ(error_of(in_program("  loop\n")), "plan text, line 3, column 7: expected `{`, found the end of the line");
    EXPECT_EQ(error_of("program f role=compute, first_cta=0, last_cta=1 {\n  bulk_commit\n"),
              "plan text, line 3, column 14: the text ends inside a body, `}` is missing");
}

TEST(PlanText, RejectsTextWithoutHeader) {
    EXPECT_THROW(parse_plan(""), ScheduleError);
    EXPECT_THROW(parse_plan("const K = 5\n"), ScheduleError);
    EXPECT_THROW(parse_plan("plan p target=host\n"), ScheduleError);
}

TEST(PlanText, NestingIsBounded) {
    std::string text;
    for (int i = 0; i < 10000; ++i) text += "loop {\n";
    EXPECT_NE(error_of(in_program(text)).find("bodies nest more than 64 deep"), std::string::npos);
}

}  // namespace
}  // namespace plait
