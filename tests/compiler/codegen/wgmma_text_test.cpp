#include "compiler/codegen/wgmma_text.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

TEST(WgmmaText, PrintsTheOperandListOfOneShape) {
    EXPECT_EQ(wgmma_text({{8, true, "f16"}}), R"(// The wgmma shapes of this kernel: scale-d is the predicate, a and b unnegated (PTX ISA, "wgmma.mma_async").
#pragma once

namespace plait {

template <>
struct WgmmaShape<8, 1, f16, 0> {
    static __device__ __forceinline__ void issue(f32 (&d)[4], u64 a, u64 b, bool accumulate) {
        asm volatile(
            "{.reg .pred p; setp.ne.b32 p, %6, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {"
            "%0, %1, %2, %3"
            "}, %4, %5, p, 1, 1, 0, 1;}\n"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "l"(a), "l"(b), "r"(static_cast<u32>(accumulate)));
    }
};

}  // namespace plait
)");
}

TEST(WgmmaText, ATransposedLeftOperandIsAnotherShape) {
    const std::string text = wgmma_text({{8, false, "bf16"}, {8, false, "bf16", false, true}});
    EXPECT_NE(text.find("WgmmaShape<8, 0, bf16, 0>"), std::string::npos);
    EXPECT_NE(text.find("WgmmaShape<8, 0, bf16, 1>"), std::string::npos);
    EXPECT_NE(text.find("p, 1, 1, 1, 0;}"), std::string::npos) << "imm-trans-a comes before imm-trans-b";
}

TEST(WgmmaText, PrintsFourRegistersForAnOperandInRegisters) {
    const std::string text = wgmma_text({{8, true, "bf16", true}});
    EXPECT_NE(text.find("struct WgmmaOperandShape<8, 1, bf16> {"), std::string::npos) << text;
    EXPECT_NE(text.find("issue(f32 (&d)[4], const u32* a, u64 b, bool accumulate)"), std::string::npos) << text;
    EXPECT_NE(text.find("setp.ne.b32 p, %9, 0;"), std::string::npos) << text;
    EXPECT_NE(text.find("\"}, {%4, %5, %6, %7}, %8, p, 1, 1, 1;}"), std::string::npos) << text;
    EXPECT_NE(text.find("\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b)"), std::string::npos) << text;
}

TEST(WgmmaText, RefusesShapesThatTheInstructionLacks) {
    EXPECT_THROW(wgmma_text({{264, false, "bf16"}}), InternalError);
    EXPECT_THROW(wgmma_text({{12, false, "bf16"}}), InternalError);
    EXPECT_THROW(wgmma_text({{64, false, "f32"}}), InternalError);
}

TEST(WgmmaText, CollectsEachShapeOnceFromNestedBodies) {
    Plan plan;
    plan.name = "p";
    plan.consts = {{"tile_n", 256}};
    const auto issue = [](const std::string& cols, const std::string& transpose) {
        return make_statement(Op::MmaIssue, {cols, transpose, "bf16", "acc", "a_stage[0]", "0", "b_stage[0]", "1"});
    };
    ProgramDef program;
    program.body = {make_statement(Op::For, {"k", "0", "4", "1"}, {issue("tile_n", "1"), issue("256", "1")}), issue("64", "0"),
                    make_statement(Op::MmaIssueOperand, {"64", "1", "bf16", "acc", "p", "v_stage[0]", "1"})};
    plan.programs = {program};
    EXPECT_EQ(wgmma_shapes(plan), (std::set<WgmmaShapeKey>{{64, false, "bf16"}, {64, true, "bf16", true}, {256, true, "bf16"}}));
    plan.consts.clear();
    EXPECT_THROW(wgmma_shapes(plan), InternalError);
}

}  // namespace
}  // namespace plait
