// Whole kernels through NVRTC: registers stay in place and ptxas serialises nothing, for each tile that schedules use.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "compiler/ir/text.h"
#include "tests/compiler/consumer_spills.h"
#include "tests/templates/sm90_source.h"

namespace plait {
namespace {

std::string read_text(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// tests/gpu/ag_gemm.cu, 1 node x 2, N 4096, K 8192.
CubinResult compile_ag_gemm(int tile_m, int tile_n, bool nn, int stages, bool epilogue) {
    Source source;
    source.kernel = fmt::format(
        "#define P_N 4096\n#define P_K 8192\n#define P_WORLD 2\n#define P_TILE_M {}\n#define P_TILE_N {}\n#define P_NN {}\n"
        "#define P_STAGES {}\n#define P_SHARD_MAX 4096\n#define P_COMM_CTAS 8\n#define P_RASTER 8\n{}",
        tile_m, tile_n, nn ? 1 : 0, stages, epilogue ? "#define P_EPILOGUE\n" : "");
    source.kernel += read_text(std::string(PLAIT_SOURCE_DIR) + "/tests/gpu/ag_gemm.cu");
    source.shapes = wgmma_text({{tile_n, nn, "bf16"}});
    return compile_cubin(source);
}

TEST(Sm90Kernel, DefaultTileSpillsNothing) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    EXPECT_EQ(compile_ag_gemm(128, 256, true, 4, false).report.spill_bytes, 0);
    EXPECT_EQ(compile_ag_gemm(128, 256, false, 4, false).report.spill_bytes, 0);
}

// Bias, gelu and residual used to be hoisted together and to spill the accumulator.
TEST(Sm90Kernel, PointwiseEpilogueSpillsNothing) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    EXPECT_EQ(compile_ag_gemm(128, 256, true, 4, true).report.spill_bytes, 0);
}

// 192 accumulator registers of 224: a few words of the epilogue, the loader and the relay may go to memory, no accumulator does.
TEST(Sm90Kernel, WideTileKeepsItsAccumulatorInRegisters) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    EXPECT_LE(compile_ag_gemm(256, 192, true, 3, false).report.spill_bytes, kMaxSpillBytes);
}

TEST(Sm90Kernel, MatrixOperationsAreNotSerialised) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    for (const std::string& message : compile_ag_gemm(128, 256, true, 4, false).report.messages) {
        EXPECT_EQ(message.find("C75"), std::string::npos) << message;
    }
}

// Two products in flight beside softmax: 192 registers of accumulators and operands. compile_cubin refuses serialised
// matrix operations (C7512 to C7514, C7520); what spills is the one-thread loader, if anything.
TEST(Sm90Kernel, AttentionWithTwoProductsInFlightStaysInRegisters) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    const Plan plan = parse_plan(read_text(std::string(PLAIT_SOURCE_DIR) + "/tests/compiler/ir/plans/attention_overlap.plan"));
    testing::expect_only_thread_agents_spill(plan, 20);   // five words of the epilogue
}

}  // namespace
}  // namespace plait
