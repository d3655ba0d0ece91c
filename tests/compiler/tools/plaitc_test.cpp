// The plaitc program as a user calls it, with an empty environment.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "compiler/compile.h"
#include "compiler/ir/request.h"
#include "compiler/ir/text.h"
#include "runtime/artifact/artifact.h"
#include "runtime/base/files.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

struct Outcome {
    int status = -1;
    std::string output;  // standard output and standard error
};

class Plaitc : public ::testing::Test {
protected:
    void SetUp() override {
        if (!file_exists(kProgram)) GTEST_SKIP() << "plaitc is not built (CLI11 missing)";
        folder_ = make_temporary_directory(fs::temp_directory_path().string());
    }
    void TearDown() override {
        if (!folder_.empty()) remove_recursively(folder_);
    }
    Outcome run(const std::string& arguments) const {
        const std::string command = "cd " PLAIT_SOURCE_DIR " && env -i " + kProgram + " " + arguments +
                                    " --cache-dir " + folder_ + "/cache 2>&1";
        Outcome outcome;
        FILE* pipe = popen(command.c_str(), "r");
        std::array<char, 4096> buffer{};
        while (std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
            outcome.output.append(buffer.data(), count);
        const int status = pclose(pipe);
        outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        return outcome;
    }

    const std::string kProgram = std::string(PLAIT_BINARY_DIR) + "/bin/plaitc";
    const std::string kSmall = "schedules/ag_gemm.json --topology 1x2 --shape M=256,N=256,K=128";
    std::string folder_;
};

#ifdef PLAIT_WITH_HOST_JIT
TEST_F(Plaitc, WritesAFolderThatTheRuntimeLoads) {
    const Outcome outcome = run(kSmall + " --target host -o " + folder_ + "/out");
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const Artifact artifact = load_artifact(folder_ + "/out");
    EXPECT_EQ(fs::path(artifact.code_file).filename(), "kernel.so");
    EXPECT_EQ(artifact.manifest.m_max, 256);
    EXPECT_EQ(artifact.manifest.world, 2);
    EXPECT_NE(artifact.source.find("// ---- role compute"), std::string::npos);
}

// A folder that held another target's code holds one target's code afterwards.
TEST_F(Plaitc, ReplacesWhatTheFolderHeldBefore) {
    fs::create_directories(folder_ + "/out");
    write_file_atomically(folder_ + "/out/kernel.cubin", "stale");
    ASSERT_EQ(run(kSmall + " --target host -o " + folder_ + "/out").status, 0);
    EXPECT_NO_THROW(load_artifact(folder_ + "/out"));
}

// A run records what it compiles; plaitc builds it elsewhere; strict mode finds it.
TEST_F(Plaitc, BuildsWhatARunRecorded) {
    const std::string path = folder_ + "/requests.jsonl";
    ScheduleFile file = load_schedule_file(PLAIT_SOURCE_DIR "/schedules/ag_gemm.json");
    file.problem = {256, 256, 128, {}};
    CompileOptions live;
    live.cache_mode = "jit_only";
    live.record_requests = path;
    for (const char* label : {"1x2", "2x1"}) {
        const Topology topology = Topology::simulated(label);
        compile(file.graph, file.schedule, file.problem, topology, Target::make("host", topology), live);
    }
    const Outcome outcome = run("--from-requests " + path + " -o " + folder_ + "/out");
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("2 requests: 2 built, 0 found, 0 failed"), std::string::npos) << outcome.output;
    EXPECT_NE(run("--from-requests " + path).output.find("0 built, 2 found"), std::string::npos);
    for (const auto& entry : fs::directory_iterator(folder_ + "/out")) EXPECT_NO_THROW(load_artifact(entry.path()));
    CompileOptions production;
    production.cache_mode = "strict";
    production.cache_dir = folder_ + "/cache";
    for (const CompileRequest& r : load_requests(path)) {
        const Artifact found = compile(r.graph, r.schedule, r.problem, r.topology, r.target, production);
        EXPECT_EQ(fs::path(found.code_file).filename(), "kernel.so");
    }
}

// One request that cannot be built does not keep the others from being built.
TEST_F(Plaitc, BuildsTheRestWhereOneRecordedRequestFails) {
    ScheduleFile file = load_schedule_file(PLAIT_SOURCE_DIR "/schedules/ag_gemm.json");
    const Topology topology = Topology::simulated("1x2");
    file.problem = {256, 256, 128, {}};
    CompileRequest good{file.graph, file.schedule, file.problem, topology, Target::make("host", topology)}, bad = good;
    bad.problem.k = 127;
    write_file_atomically(folder_ + "/requests.jsonl", print_request(bad) + "\n" + print_request(good) + "\n");
    const Outcome outcome = run("--from-requests " + folder_ + "/requests.jsonl");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.output.find("2 requests: 1 built, 0 found, 1 failed"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("k = 127"), std::string::npos) << outcome.output;
}

#else
TEST_F(Plaitc, WithoutTheHostCompilerSaysWhatToInstall) {
    const Outcome outcome = run(kSmall + " --target host -o " + folder_ + "/out");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.output.find("libclang-19-dev"), std::string::npos) << outcome.output;
}
#endif

#ifdef PLAIT_WITH_CUDA
TEST_F(Plaitc, MakesACubinWithoutEnvironmentOrGpu) {
    const Outcome outcome = run(kSmall + " --target sm_90a -o " + folder_ + "/out --print summary");
    if (outcome.output.find("libnvrtc") != std::string::npos) GTEST_SKIP() << outcome.output;
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const Artifact artifact = load_artifact(folder_ + "/out");
    EXPECT_EQ(fs::path(artifact.code_file).filename(), "kernel.cubin");
    EXPECT_GT(artifact.manifest.registers, 0);
    EXPECT_NE(outcome.output.find("registers"), std::string::npos);
}

#else
TEST_F(Plaitc, WithoutNvrtcSaysHowToBuildWithIt) {
    const Outcome outcome = run(kSmall + " --target sm_90a -o " + folder_ + "/out");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.output.find("PLAIT_CUDA=ON"), std::string::npos) << outcome.output;
}
#endif

TEST_F(Plaitc, PrintsAPlanThatParses) {
    const Outcome outcome = run(kSmall + " --target host --print plan --set stages=3");
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const Plan plan = parse_plan(outcome.output);
    EXPECT_EQ(plan.world, 2);
}

TEST_F(Plaitc, PrintsWhatIsWrongAndWhatToDo) {
    const std::pair<const char*, const char*> cases[] = {
        {"schedules/ag_gemm.json --set stagess=3 --print plan", "nearest is `stages`"},
        {"schedules/ag_gemm.json --shape M=many --print plan", "`many` is not a positive integer"},
        {"schedules/ag_gemm.json --shape X=3 --print plan", "there is no size X"},
        {"schedules/ag_gemm.json --target sm_80 --print plan", "targets are sm_90a and host"},
        {"schedules/missing.json --print plan", "cannot read"},
        {"schedules/ag_gemm.json", "give -o DIR"},
        {"", "give a schedule file or --from-requests FILE"},
        {"--from-requests missing.jsonl", "cannot read missing.jsonl"},
        {"--from-requests missing.jsonl --shape M=8", "takes what was recorded"},
    };
    for (const auto& [arguments, expected] : cases) {
        const Outcome outcome = run(arguments);
        EXPECT_EQ(outcome.status, 1) << arguments;
        EXPECT_NE(outcome.output.find(expected), std::string::npos) << arguments << "\n" << outcome.output;
    }
}

}  // namespace
}  // namespace plait
