// NVRTC without a GPU. Where the machine has no NVRTC the compile tests are skipped, the rest is not.
#include "compiler/backend/nvrtc_compiler.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "compiler/backend/nvrtc_library.h"
#include "compiler/choose/choose_schedule.h"
#include "compiler/passes/lower.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "tests/compiler/consumer_spills.h"
#include "tests/compiler/nvrtc.h"
#include "tests/compiler/passes/request.h"

namespace plait {
namespace {

std::vector<std::string> schedule_files() {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(PLAIT_SOURCE_DIR "/schedules")) {
        if (entry.path().extension() == ".json") files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
}

class ScheduleFiles : public ::testing::TestWithParam<std::string> {};

// A loader that spills a few words, outside of every loop over k or keys, costs nothing; a warpgroup that multiplies may not.
TEST_P(ScheduleFiles, CompileWithoutSpillsOfWarpgroupsOrMessages) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
    const ScheduleFile file = load_schedule_file(GetParam());
    const Topology topology = topology_of(file);
    const Target target = Target::make("sm_90a", topology);
    const Plan plan = lower(file.graph, file.schedule, file.problem, topology, target);
    const CubinResult result = compile_cubin(emit(plan));
    EXPECT_EQ(result.cubin.substr(1, 3), "ELF");
    EXPECT_GT(result.report.registers, 0);
    testing::expect_only_thread_agents_spill(plan);
}

INSTANTIATE_TEST_SUITE_P(Files, ScheduleFiles, ::testing::ValuesIn(schedule_files()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

// The widest tiles that compiler/choose takes of each height, bare and with the epilogues that keep most beside the accumulator.
TEST(Nvrtc, CompilesTheWidestChosenTilesWithoutSpills) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
    struct Widest {
        const char *tile_m, *tile_k, *consumers, *stages, *bare, *fused;
    };
    for (const Widest& w : {Widest{"64", "128", "1", "3", "160", "160"}, {"128", "64", "2", "3", "256", "256"},
                            {"192", "64", "3", "3", "192", "160"}, {"256", "64", "2", "3", "192", "160"}}) {
        for (const bool fused : {false, true}) {
            testing::TestRequest request{"1x1", {}, {}, {4096, 4096, 4096}, false};
            request.knobs = {{"tile_m", w.tile_m}, {"tile_k", w.tile_k}, {"tile_n", fused ? w.fused : w.bare}, {"stages", w.stages},
                             {"consumer_warpgroups", w.consumers}};
            if (fused) request.pointwise = {"bias", "gelu", "residual"};
            request.arch = "sm_90a";
            request.sms = 132;
            SCOPED_TRACE(std::string(w.tile_m) + (fused ? " fused" : " bare"));
            testing::expect_only_thread_agents_spill(request.plan());
        }
    }
}

// Fused operations share registers with accumulators: the largest tile with all of them stays within the limit, and its
// matrix operations are not serialised. What is spilled is reported, never silent.
TEST(Nvrtc, CompilesEpiloguesWithinTheSpillLimit) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
    for (const bool transpose_b : {false, true}) {
        testing::TestRequest request{"1x2", {}, {"bias", "gelu", "residual"}, {4096, 4096, 4096}, true, transpose_b};
        request.arch = "sm_90a";
        request.sms = 132;
        const PtxasReport report = compile_cubin(emit(request.plan())).report;
        EXPECT_LE(report.spill_bytes, kMaxSpillBytes) << "transpose_b " << transpose_b;
        testing::expect_only_thread_agents_spill(request.plan());
    }
}

// What compiler/choose takes for shapes that nobody tuned for is never refused: no warpgroup spills, nothing is serialised.
TEST(Nvrtc, CompilesWhatIsChosenForAnyShape) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
    std::mt19937_64 random(3);
    const auto eighths = [&] { return 8 * std::int64_t(64 + random() % 1984); };
    for (int i = 0; i < 16; ++i) {
        testing::TestRequest request{"1x1", {}, {}, {std::int64_t(1 + random() % 8192), eighths(), eighths()}, false, i % 2 == 0};
        if (i % 4 >= 2) request.pointwise = {"bias", "gelu", "residual"};
        request.arch = "sm_90a";
        request.sms = 132;
        const Plan plan = request.plan();
        SCOPED_TRACE(fmt::format("M={} N={} K={}: {}", request.problem.m_max, request.problem.n, request.problem.k,
                                 choose_schedule(request.graph(), request.schedule(), request.problem, request.cluster(), request.target()).reason));
        EXPECT_NO_THROW(check_spills(plan, compile_cubin(emit(plan)).report));
    }
}

// Remote arrives and multicasts in the loops of the largest tiles.
TEST(Nvrtc, ClustersSpillNothing) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
    for (const auto& [tile_m, tile_n] : {std::pair{"128", "256"}, {"256", "128"}, {"256", "160"}, {"128", "128"}, {"256", "192"}}) {
        for (const char* along : {"m", "n"}) {
            testing::TestRequest request{"1x1",
                                         {{"cluster", "2"}, {"cluster_along", along}, {"tile_m", tile_m}, {"tile_n", tile_n}},
                                         {},
                                         {8192, 4096, 8192},
                                         false,
                                         along == std::string("n")};
            request.arch = "sm_90a";
            request.sms = 132;
            testing::expect_only_thread_agents_spill(request.plan());
        }
    }
}

TEST(Nvrtc, SaysWhereTheSourceIsWrong) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
    Source source;
    source.kernel = "extern \"C\" __global__ void plait_kernel() {\n    undeclared();\n}\n";
    source.shapes = "#pragma once\n";
    try {
        compile_cubin(source);
        FAIL() << "compiled";
    } catch (const CompileError& error) {
        EXPECT_NE(error.message().find("kernel.cu(2)"), std::string::npos) << error.message();
        EXPECT_NE(error.message().find("undeclared"), std::string::npos) << error.message();
    }
}

TEST(Nvrtc, NamesTheLibraryAndWhatToInstallWhereItIsMissing) {
    setenv("PLAIT_NVRTC_LIBRARY", "/nowhere/libnvrtc.so.13", 1);
    try {
        open_nvrtc();
        ADD_FAILURE() << "opened a file that is not there";
    } catch (const CompileError& error) {
        EXPECT_NE(error.message().find("/nowhere/libnvrtc.so.13"), std::string::npos) << error.message();
        EXPECT_NE(error.hint().find("nvidia-cuda-nvrtc"), std::string::npos) << error.hint();
    }
    unsetenv("PLAIT_NVRTC_LIBRARY");
}

// Programs lie in build/bin beside .venv; Python's module lies in site-packages itself.
TEST(Nvrtc, IsFoundInTheWheelBesideProgramAndModule) {
    const std::string root = make_temporary_directory(std::filesystem::temp_directory_path().string());
    const std::string packages = root + "/.venv/lib/python3.11/site-packages";
    const std::string wheel = packages + "/nvidia/cu13/lib/libnvrtc.so.13";
    make_directories(std::filesystem::path(wheel).parent_path().string());
    write_file_atomically(wheel, "");
    EXPECT_EQ(nvrtc_candidates_near(root + "/build/bin/plaitc"), std::vector<std::string>{wheel});
    EXPECT_EQ(nvrtc_candidates_near(packages + "/plait/_core.so").front(), wheel);
    EXPECT_EQ(nvrtc_candidates_near(root + "/.venv/bin/plaitc").front(), wheel);
    remove_recursively(root);
}

// NVRTC of a wheel has no search path: without the toolkit it failed at its first compilation, for want of its builtins.
TEST(Nvrtc, BuiltinsBesideTheLibraryAreLoadedWithIt) {
    if (!testing::have_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
    const std::filesystem::path folder = std::filesystem::path(open_nvrtc().path).parent_path();
    int found = 0;
    if (!folder.empty()) {
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            const std::string name = entry.path().filename().string();
            if (!name.starts_with("libnvrtc-builtins.so") || entry.is_symlink()) continue;
            ++found;
            void* loaded = dlopen(entry.path().c_str(), RTLD_NOW | RTLD_NOLOAD);
            EXPECT_NE(loaded, nullptr) << name;
            if (loaded) dlclose(loaded);
        }
    }
    if (found == 0) GTEST_SKIP() << "NVRTC comes from the loader's path";
}

TEST(Nvrtc, FlagsHoldNoPath) {
    for (const std::string& flag : nvrtc_flags()) EXPECT_EQ(flag.find('/'), std::string::npos) << flag;
}

TEST(RootRelativeIncludes, ResolvesAgainstTheIncludingFile) {
    const std::string text =
        "#pragma once\n#include \"../ptx/fence.cuh\"\n  #include \"local.cuh\"   // why\n#include "
        "\"kernel_shapes.h\"\n// #include \"no.h\"\n";
    EXPECT_EQ(root_relative_includes("sm90/sync/flag.cuh", text),
              "#pragma once\n#include \"sm90/ptx/fence.cuh\"\n#include \"sm90/sync/local.cuh\"   // why\n#include "
              "\"kernel_shapes.h\"\n// #include \"no.h\"\n");
}

}  // namespace
}  // namespace plait
