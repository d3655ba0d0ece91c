#include "compiler/backend/ptxas_log.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

const char* const kLog = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'plait_kernel' for 'sm_90a'
ptxas info    : Function properties for plait_kernel
ptxas         .     16 bytes stack frame, 40 bytes spill stores, 48 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 16 bytes cumulative stack size
ptxas info    : Compile time = 115.219 ms
)";

TEST(PtxasLog, ReadsRegistersSpillsAndLocalBytes) {
    const PtxasReport report = parse_ptxas_log(kLog);
    EXPECT_EQ(report.registers, 168);
    EXPECT_EQ(report.spill_bytes, 48);
    EXPECT_EQ(report.local_bytes, 16);
    EXPECT_TRUE(report.messages.empty());
    EXPECT_NO_THROW(check_ptxas_messages(report));
}

TEST(PtxasLog, KeepsEverythingElseAsAMessage) {
    const PtxasReport report =
        parse_ptxas_log(std::string(kLog) + "ptxas warning : Registers are spilled to local memory in function 'k'\n");
    ASSERT_EQ(report.messages.size(), 1u);
    EXPECT_NE(report.messages[0].find("spilled"), std::string::npos);
}

TEST(PtxasLog, RefusesSerialisedMatrixOperations) {
    for (const char* code : {"C7508", "C7512", "C7513", "C7514", "C7520"}) {
        const std::string line = "ptxas info    : (" + std::string(code) +
                                 ") Potential Performance Loss: wgmma.mma_async instructions are serialized\n";
        EXPECT_THROW(check_ptxas_messages(parse_ptxas_log(kLog + line)), CompileError) << code;
    }
    EXPECT_NO_THROW(
        check_ptxas_messages(parse_ptxas_log(std::string(kLog) + "ptxas info    : (C7509) another message\n")));
}

}  // namespace
}  // namespace plait
