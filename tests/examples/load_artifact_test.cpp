// examples/03_load_artifact.cpp as a user runs it: a folder that plaitc wrote, and a program that knows the runtime alone.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "runtime/base/files.h"
#include "tests/runtime/base/temporary_directory.h"

namespace plait::testing {
namespace {

const std::string kPrograms = std::string(PLAIT_BINARY_DIR) + "/bin/";

struct Outcome {
    int status = -1;
    std::string output;  // standard output and standard error
};

Outcome run(const std::string& command) {
    Outcome outcome;
    FILE* pipe = popen(("cd " PLAIT_SOURCE_DIR " && " + command + " 2>&1").c_str(), "r");
    std::array<char, 4096> buffer{};
    while (std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) outcome.output.append(buffer.data(), count);
    const int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
}

class LoadArtifact : public ::testing::Test {
protected:
    Outcome compile(const std::string& arguments) const {
        return run(kPrograms + "plaitc " + arguments + " --no-cache -o " + (folder_ / "out"));
    }
    Outcome load() const { return run(kPrograms + "load_artifact " + (folder_ / "out")); }
    TemporaryDirectory folder_;
};

TEST_F(LoadArtifact, RunsAHostArtifactOnASimulatedCluster) {
    for (const char* request : {"schedules/ag_gemm.json --topology 2x2 --shape M=130,N=136,K=72",
                                "schedules/matmul.json --topology 1x1 --shape M=70,N=64,K=128"}) {
        const Outcome compiled = compile(std::string(request) + " --target host");
        if (compiled.output.find("libclang-19-dev") != std::string::npos) GTEST_SKIP() << compiled.output;
        ASSERT_EQ(compiled.status, 0) << compiled.output;
        const Outcome outcome = load();
        EXPECT_EQ(outcome.status, 0) << outcome.output;
        EXPECT_NE(outcome.output.find("0 elements wrong"), std::string::npos) << outcome.output;
    }
}

// With a driver the cubin runs; without one the program says what is missing.
TEST_F(LoadArtifact, RunsACubinThroughASessionOrSaysThatThereIsNoDriver) {
    const Outcome compiled = compile("schedules/matmul.json --topology 1x1 --shape M=256,N=128,K=128 --target sm_90a");
    if (compiled.status != 0) GTEST_SKIP() << compiled.output;
    const Outcome outcome = load();
    if (outcome.status == 0) {
        EXPECT_NE(outcome.output.find(" 0 elements wrong"), std::string::npos) << outcome.output;
    } else {
        EXPECT_EQ(outcome.status, 2) << outcome.output;
        EXPECT_NE(outcome.output.find("DeviceError: "), std::string::npos) << outcome.output;
    }
}

TEST_F(LoadArtifact, SaysWhatIsMissingInAFolder) {
    const Outcome outcome = load();
    EXPECT_EQ(outcome.status, 2);
    EXPECT_NE(outcome.output.find("manifest.json"), std::string::npos) << outcome.output;
}

// A deployment ships the runtime alone.
TEST_F(LoadArtifact, IsShortAndNeedsNoCompiler) {
    const std::string source = read_file(PLAIT_SOURCE_DIR "/examples/03_load_artifact.cpp");
    EXPECT_LT(std::count(source.begin(), source.end(), '\n'), 100);
    EXPECT_EQ(source.find("compiler/"), std::string::npos);
    const std::string libraries = run("ldd " + kPrograms + "load_artifact").output;
    EXPECT_NE(libraries.find("libc.so"), std::string::npos) << libraries;
    for (const char* library : {"LLVM", "clang", "nvrtc", "python"})
        EXPECT_EQ(libraries.find(library), std::string::npos) << libraries;
}

}  // namespace
}  // namespace plait::testing
