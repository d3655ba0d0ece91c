// Attention's kernels through NVRTC, without a GPU: matrix operations stay asynchronous, nothing is spilled beyond the rule.
#include <gtest/gtest.h>

#include "tests/compiler/consumer_spills.h"
#include "tests/compiler/nvrtc.h"
#include "tests/compiler/passes/attention_request.h"

namespace plait::testing {
namespace {

struct Named {
    std::string name;
    AttentionRequest request;
};
void PrintTo(const Named& named, std::ostream* stream) { *stream << named.name; }

std::vector<Named> kernels() {
    AttentionAttributes first;
    first.layout = "bhsd";
    AttentionRequest f16{128, 8, 8, causal()};
    f16.dtype = "f16";
    return {{"full_64", {64, 32, 32}},
            {"causal_64", {64, 32, 8, causal()}},
            {"full_128", {128, 32, 32}},
            {"causal_128", {128, 64, 8, causal()}},
            {"full_256", {256, 16, 16}},
            {"causal_256", {256, 16, 16, causal()}},
            {"serial_128", {128, 8, 8, causal(), true, {{"overlap", "serial"}}}},
            {"products_128", {128, 8, 8, causal(), false, {{"overlap", "products"}}}},
            {"operands_causal_128", {128, 8, 8, causal(), true, {{"overlap", "operands"}}}},
            {"turn_64", {64, 8, 8, {}, true, {{"turn", "on"}}}},
            {"heads_first_128", {128, 8, 8, first}},
            {"half_precision", f16}};
}

class NvrtcAttention : public ::testing::TestWithParam<Named> {};

TEST_P(NvrtcAttention, CompilesWithoutSerialisedProductsOrSpills) {
    if (!have_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
    AttentionRequest request = GetParam().request;
    request.arch = "sm_90a", request.sms = 132;
    // compile_cubin refuses what ptxas says of serialised matrix operations (C7508, C7512 to C7514, C7518, C7520).
    expect_only_thread_agents_spill(request.plan());
}

INSTANTIATE_TEST_SUITE_P(Kernels, NvrtcAttention, ::testing::ValuesIn(kernels()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plait::testing
