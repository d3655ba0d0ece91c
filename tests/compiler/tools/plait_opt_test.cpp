// The plait-opt program as a user calls it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "compiler/ir/text.h"
#include "runtime/base/files.h"
#include "tests/runtime/base/temporary_directory.h"

namespace plait::testing {
namespace {

const std::string kProgram = std::string(PLAIT_BINARY_DIR) + "/bin/plait-opt";

struct Outcome {
    int status = -1;
    std::string output;  // standard output and standard error
};

Outcome run(const std::string& arguments) {
    const std::string command = "cd " PLAIT_SOURCE_DIR " && " + kProgram + " " + arguments + " 2>&1";
    Outcome outcome;
    FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
        outcome.output.append(buffer.data(), count);
    const int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
}

class PlaitOpt : public ::testing::Test {
protected:
    void SetUp() override {
        if (!file_exists(kProgram)) GTEST_SKIP() << "plait-opt is not built (CLI11 missing)";
    }
    std::string write(const std::string& name, const std::string& text) const {
        write_file_atomically(folder_ / name, text);
        return folder_ / name;
    }
    TemporaryDirectory folder_;
};

TEST_F(PlaitOpt, TextComesBackAsItWasPrinted) {
    const Outcome schedule = run("schedules/ag_gemm.json");
    ASSERT_EQ(schedule.status, 0) << schedule.output;
    EXPECT_EQ(run(write("schedule.txt", schedule.output)).output, schedule.output);
    const Outcome plan = run("schedules/ag_gemm.json --lower --topology 2x2 --no-comments");
    ASSERT_EQ(plan.status, 0) << plan.output;
    EXPECT_EQ(parse_plan(plan.output).world, 4);
    EXPECT_EQ(run(write("plan.txt", plan.output)).output, plan.output);
    EXPECT_EQ(run("- < " + folder_ / "plan.txt").output, plan.output);
}

// An edited plan: the rules find what is missing; one rule can be asked alone.
TEST_F(PlaitOpt, ProvesAnEditedPlan) {
    const std::string path = write("plan.txt", run("schedules/ag_gemm.json --lower --topology 1x2").output);
    EXPECT_EQ(run(path + " --verify --print summary").status, 0);
    Plan plan = parse_plan(read_file(path));
    std::erase_if(plan.edges, [](const EdgeDef& edge) { return edge.name == "a_ready"; });
    const std::string edited = write("edited.txt", print_plan(plan));
    const Outcome all = run(edited + " --verify");
    EXPECT_EQ(all.status, 1);
    EXPECT_NE(all.output.find("a_ready"), std::string::npos) << all.output;
    EXPECT_EQ(run(edited + " --verify --rule check_memory --print summary").status, 0);
}

TEST_F(PlaitOpt, PrintsTheKernelOfAPlan) {
    const std::string path =
        write("plan.txt", run("schedules/matmul.json --lower --topology 1x1 --target sm_90a").output);
    const Outcome source = run(path + " --print source");
    EXPECT_EQ(source.status, 0);
    EXPECT_NE(source.output.find("// ---- role compute"), std::string::npos) << source.output;
}

TEST_F(PlaitOpt, SaysWhatItCannotDo) {
    const std::string plan = write("plan.txt", run("schedules/matmul.json --lower --topology 1x1").output);
    const std::pair<std::string, const char*> cases[] = {
        {write("text.txt", "something"), "is neither a plan nor a schedule"},
        {plan + " --lower", "it is lowered already"},
        {plan + " --print schedule", "a plan holds no schedule"},
        {"schedules/ag_gemm.json --print plan", "lower it first: --lower"},
        {"missing.plan", "cannot read missing.plan"},
        {write("broken.txt", "plan one target=host\n"), "line 1"},
    };
    for (const auto& [arguments, expected] : cases) {
        const Outcome outcome = run(arguments);
        EXPECT_EQ(outcome.status, 1) << arguments;
        EXPECT_NE(outcome.output.find(expected), std::string::npos) << arguments << "\n" << outcome.output;
    }
}

}  // namespace
}  // namespace plait::testing
