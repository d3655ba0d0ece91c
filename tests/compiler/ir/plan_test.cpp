#include "compiler/ir/plan.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/base/error.h"

namespace plait {
namespace {

std::string misuse(Op op, std::vector<std::string> operands, std::vector<Statement> body = {}) {
    try {
        make_statement(op, std::move(operands), std::move(body));
    } catch (const InternalError& error) {
        return error.message();
    }
    return "no error";
}

TEST(PlanOps, MnemonicsAreSnakeCaseAndUnique) {
    std::set<std::string> seen;
    for (const OpSpec& spec : all_ops()) {
        EXPECT_TRUE(seen.insert(spec.mnemonic).second) << spec.mnemonic;
        EXPECT_EQ(find_op(spec.mnemonic), &spec);
        EXPECT_EQ(&op_spec(spec.op), &spec);
        EXPECT_FALSE(spec.doc.empty()) << spec.mnemonic;
        std::set<std::string> names;
        for (const OperandSpec& operand : spec.operands)
            EXPECT_TRUE(names.insert(operand.name).second) << spec.mnemonic;
    }
    EXPECT_EQ(op_spec(Op::WaitFlags).mnemonic, "wait_flags");
    EXPECT_EQ(op_spec(Op::FenceAsyncGlobal).effect, Effect::Fence);
    EXPECT_TRUE(op_spec(Op::For).has_body);
    EXPECT_FALSE(op_spec(Op::Let).has_body);
    EXPECT_EQ(find_op("no_such_op"), nullptr);
}

TEST(MakeStatement, NamesOperands) {
    const Statement s = make_statement(Op::WaitFlag, {"a_ready", "q + 1", "epoch", "System", "a_ready"});
    EXPECT_EQ(s.word("flag"), "a_ready");
    EXPECT_EQ(s.expr("index").print(), "q + 1");
    EXPECT_TRUE(s.has("scope"));
    EXPECT_FALSE(s.has("count"));
    EXPECT_THROW(s.word("count"), InternalError);
    EXPECT_THROW(s.word("index"), InternalError);
    EXPECT_THROW(s.expr("flag"), InternalError);
}

TEST(MakeStatement, OptionalOperandsMayBeLeftOut) {
    const Statement one = make_statement(Op::Pointwise, {"relu"});
    EXPECT_FALSE(one.has("tensor"));
    const Statement two = make_statement(Op::Pointwise, {"scale", "", "0.5"});
    EXPECT_FALSE(two.has("tensor"));
    EXPECT_EQ(two.word("value"), "0.5");
}

TEST(MakeStatement, MisuseIsAnInternalErrorThatNamesThePlace) {
    EXPECT_EQ(misuse(Op::Let, {"x"}), "make_statement let: operand value (2 of 2) is missing");
    EXPECT_EQ(misuse(Op::Let, {"x", "1", "2"}), "make_statement let: 3 operands given, it takes 2");
    EXPECT_EQ(misuse(Op::Let, {"x", "1 +"}),
              "make_statement let: value: bad expression `1 +`, column 4: expected a value, found the end");
    EXPECT_EQ(misuse(Op::Let, {"x y", "1"}), "make_statement let: name: `x y` is not a word");
    EXPECT_EQ(misuse(Op::BarrierWait, {"bar + 1", "0", "e"}),
              "make_statement barrier_wait: bar: `bar + 1` does not refer to a barrier, write name or name[index]");
    EXPECT_EQ(misuse(Op::SignalSet, {"f", "0", "0", "1", "Network", "e"}),
              "make_statement signal_set: scope: `Network` is none of Cta, Gpu, System");
    EXPECT_EQ(misuse(Op::Let, {"x", "1"}, {make_statement(Op::BulkCommit, {})}),
              "make_statement let: this op has no body");
}

TEST(Words, NameEveryEnumValue) {
    EXPECT_EQ(word_of(ProducerKind::CopyEngine), "copy_engine");
    EXPECT_EQ(word_of(SignalKind::InlineTag), "inline_tag");
    EXPECT_EQ(word_of(EdgeScope::Network), "network");
    EXPECT_EQ(word_of(ConsumerKind::Overwrite), "overwrite");
    EXPECT_EQ(word_of(AgentKind::Warpgroup), "warpgroup");
    EXPECT_EQ(word_of(Effect::Wait), "wait");
}

}  // namespace
}  // namespace plait
