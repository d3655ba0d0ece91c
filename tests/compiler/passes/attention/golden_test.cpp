// Printed plans and sources of attention. PLAIT_UPDATE_GOLDEN=1 rewrites them; the diff is reviewed like code.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/codegen/emit.h"
#include "compiler/ir/text.h"
#include "tests/compiler/passes/attention_request.h"

namespace plait::testing {
namespace {

struct Golden {
    std::string name;
    AttentionRequest request;
};
void PrintTo(const Golden& golden, std::ostream* stream) { *stream << golden.name; }

std::vector<Golden> goldens() {
    AttentionAttributes first;
    first.layout = "bhsd";
    std::vector<Golden> list = {{"attention_128_full", {128, 32, 32}},
                                {"attention_128_causal", {128, 64, 8, causal()}},
                                {"attention_64_causal", {64, 32, 32, causal(128)}},
                                {"attention_256_heads_first", {256, 16, 16, first, false}}};
    for (Golden& golden : list) golden.request.m_max = 8192, golden.request.keys_max = 8192, golden.request.batch_max = 16;
    return list;
}

// Empty where the text is what the file says.
std::string difference(const std::string& path, const std::string& text) {
    const char* update = std::getenv("PLAIT_UPDATE_GOLDEN");
    if (update != nullptr && std::string(update) == "1") std::ofstream(path) << text;
    std::ifstream file(path);
    if (!file) return path + " is missing; PLAIT_UPDATE_GOLDEN=1 writes it";
    std::istringstream lines(text);
    std::string expected, got;
    for (int number = 1; std::getline(file, expected); ++number) {
        if (!std::getline(lines, got)) return "ends before line " + std::to_string(number);
        if (got != expected) return "line " + std::to_string(number) + "\n  " + got + "\n  " + expected;
    }
    return std::getline(lines, got) ? "goes on: " + got : "";
}

class AttentionGoldens : public ::testing::TestWithParam<Golden> {};

TEST_P(AttentionGoldens, PlanIsAsPrintedBefore) {
    const std::string path = PLAIT_SOURCE_DIR "/tests/golden/plans/" + GetParam().name + ".plan";
    EXPECT_EQ(difference(path, print_plan(GetParam().request.plan())), "");
}

TEST_P(AttentionGoldens, SourceIsAsPrintedBefore) {
    for (const char* arch : {"host", "sm_90a"}) {
        AttentionRequest request = GetParam().request;
        request.arch = arch;
        const std::string path = PLAIT_SOURCE_DIR "/tests/golden/sources/" + GetParam().name + "_" + arch + ".cu";
        EXPECT_EQ(difference(path, emit(request.plan()).kernel), "");
    }
}

TEST_P(AttentionGoldens, RoleBodiesAreTheSameBytesOnBothMachines) {
    const auto bodies = [](AttentionRequest request, const char* arch) {
        request.arch = arch;
        const std::string kernel = emit(request.plan()).kernel;
        const std::size_t first = kernel.find("// ---- role"), end = kernel.find("// ---- entry");
        return kernel.substr(first, end - first);
    };
    const std::string host = bodies(GetParam().request, "host");
    EXPECT_EQ(host, bodies(GetParam().request, "sm_90a"));
    EXPECT_GT(host.size(), 2000u);
    for (const char* word : {"#if", "__CUDA", "asm", "sm_90a", "threadIdx"}) EXPECT_EQ(host.find(word), std::string::npos) << word;
}

INSTANTIATE_TEST_SUITE_P(Sources, AttentionGoldens, ::testing::ValuesIn(goldens()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plait::testing
