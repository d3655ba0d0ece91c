// Spills through NVRTC, without a GPU: warpgroups may have none, and the error says whose they are.
#include "compiler/backend/nvrtc_spills.h"

#include <gtest/gtest.h>

#include <functional>

#include "compiler/backend/nvrtc_compiler.h"
#include "compiler/compile.h"
#include "compiler/passes/lower.h"
#include "runtime/base/error.h"
#include "tests/compiler/nvrtc.h"
#include "tests/compiler/passes/request.h"

namespace plait {
namespace {

testing::TestRequest request(std::vector<std::pair<std::string, std::string>> tile) {
    testing::TestRequest made{"1x1", std::move(tile), {"bias", "gelu", "residual"}, {4096, 4096, 4096}, false};
    made.arch = "sm_90a";
    made.sms = 132;
    return made;
}

std::string failure(const std::function<void()>& run) {
    try {
        run();
    } catch (const CompileError& error) {
        return error.message() + " | " + error.hint();
    }
    return "";
}

// It used to be compiled, without a word below 96 bytes.
TEST(Spills, AUserGraphWhoseConsumersSpillIsRefusedWithTheirNames) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    const testing::TestRequest r = request({{"tile_m", "256"}, {"tile_n", "192"}, {"stages", "3"}});
    CompileOptions options;
    options.cache_mode = "jit_only";
    const std::string said =
        failure([&] { compile(r.graph(), r.schedule(), r.problem, r.cluster(), r.target(), options); });
    for (const char* part : {"warpgroups of matmul spill ", "consumer0", "consumer1", "none are allowed", "tile_n"})
        EXPECT_NE(said.find(part), std::string::npos) << said;
    EXPECT_EQ(said.find("loader"), std::string::npos) << said;
}

TEST(Spills, TheSameGraphWithASmallerTileSpillsNothing) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    const Plan plan = request({{"tile_m", "256"}, {"tile_n", "160"}, {"stages", "3"}}).plan();
    EXPECT_EQ(compile_cubin(emit(plan)).report.spill_bytes, 0);
}

// Thread agents of an attention kernel spill a few words. The limit is tried with a report of more.
TEST(Spills, OneThreadAgentsMayHaveAFewBytesAndAreNamedBeyond) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC";
    const ScheduleFile file = load_schedule_file(PLAIT_SOURCE_DIR "/schedules/attention.json");
    const Topology topology = topology_of(file);
    const Plan plan = lower(file.graph, file.schedule, file.problem, topology, Target::make("sm_90a", topology));
    PtxasReport report = compile_cubin(emit(plan)).report;
    EXPECT_EQ(failure([&] { check_spills(plan, report); }), "");
    report.spill_bytes = kMaxSpillBytes + 8;
    const std::string said = failure([&] { check_spills(plan, report); });
    for (const char* part :
         {"one-thread agents of attention spill 104 bytes", "104 less without loader", "96 are allowed"})
        EXPECT_NE(said.find(part), std::string::npos) << said;
}

}  // namespace
}  // namespace plait
