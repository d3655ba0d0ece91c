// Attention on the host machine: right under many seeds, for lengths that divide nothing, and the same bits under every
// schedule. Every element of result and log-sum-exp is compared with a float64 softmax.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "compiler/ir/text.h"
#include "runtime/base/error.h"
#include "tests/sim/attention_harness.h"

namespace plait::testing {
namespace {

constexpr int kSeedsPerCase = 8;

struct Named {
    std::string name;
    AttentionRequest request;
};
void PrintTo(const Named& named, std::ostream* stream) { *stream << named.name; }

AttentionAttributes with(AttentionAttributes a, const std::string& layout, double scale = 0, std::int64_t key_block = 0) {
    a.layout = layout, a.scale = scale, a.key_block = key_block;
    return a;
}

std::vector<Named> cases() {
    using Knobs = std::vector<std::pair<std::string, std::string>>;
    const Knobs one = {{"consumer_warpgroups", "1"}};
    AttentionRequest f16{128, 2, 2, causal()};
    f16.dtype = "f16";
    AttentionRequest no_lse{64, 2, 1, {}};
    no_lse.lse = false;
    return {
        {"full_128", {128, 2, 1, {}}},
        {"causal_128", {128, 2, 1, causal()}},
        {"full_64", {64, 4, 2, {}}},
        {"causal_64", {64, 3, 1, causal()}},
        {"full_256", {256, 1, 1, {}}},
        {"causal_256", {256, 2, 1, causal()}},
        {"offset_forward", {64, 2, 1, causal(100), true, one}},
        {"offset_back", {64, 2, 2, causal(-70), true, one}},
        {"heads_first", {128, 2, 1, with(causal(), "bhsd"), true, one}},
        {"heads_first_full", {64, 4, 2, with({}, "bhsd")}},
        {"scale_and_block", {64, 2, 1, with(causal(), "bshd", 0.3, 64)}},
        {"serial", {128, 2, 1, causal(), true, {{"overlap", "serial"}, {"turn", "off"}}}},
        {"serial_turn", {128, 2, 1, {}, true, {{"overlap", "serial"}}}},
        {"products_turn", {128, 2, 1, causal(), true, {{"overlap", "products"}, {"turn", "on"}}}},
        {"rescale_full_64", {64, 2, 1, {}, true, {{"overlap", "rescale"}}}},
        {"products_64", {64, 2, 1, causal(), true, {{"overlap", "products"}}}},
        {"joint_full_128", {128, 2, 1, {}, true, {{"overlap", "joint"}, {"turn", "off"}}}},
        {"operands_turn", {128, 2, 1, causal(), true, {{"overlap", "operands"}, {"turn", "on"}}}},
        {"half_precision", f16},
        {"without_lse", no_lse},
    };
}

class Attention : public ::testing::TestWithParam<Named> {};

TEST_P(Attention, EveryRowIsRightUnderManySeeds) {
    const AttentionKernel kernel = build_attention(GetParam().request);
    const std::vector<AttentionShape> shapes[] = {
        {{150, 270, 1}, {1, 1, 2}}, {{65, 400, 1}, {64, 128, 1}}, {{130, 100, 2}, {3, 300, 1}}, {{200, 129, 1}}};
    for (int seed = 1; seed <= kSeedsPerCase; ++seed) {
        SimOptions options;
        options.seed = std::uint64_t(seed);
        const AttentionOutcome outcome = run_attention(kernel, shapes[seed % 4], options, std::uint64_t(seed));
        ASSERT_EQ(outcome.fault, "") << "seed " << seed;
        ASSERT_LE(outcome.worst, 1.0) << "seed " << seed;
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Attention, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// One artifact serves every length and batch, nothing at all included: no keys give 0 and -inf.
TEST(AttentionLengths, EmptyAndSmallOnes) {
    for (const AttentionAttributes& attributes : {AttentionAttributes{}, causal(), causal(-3)}) {
        const AttentionKernel kernel = build_attention({64, 2, 1, attributes});
        for (const AttentionShape& at : std::vector<AttentionShape>{
                 {0, 5, 1}, {5, 0, 1}, {0, 0, 1}, {5, 7, 0}, {1, 1, 1}, {2, 1, 3}, {63, 65, 1}, {300, 2, 1}, {2, 400, 3}}) {
            SimOptions options;
            options.seed = std::uint64_t(at.m * 31 + at.keys);
            const AttentionOutcome outcome = run_attention(kernel, {at, at}, options, 3);
            EXPECT_EQ(outcome.fault, "") << at.m << " " << at.keys << " " << at.batch;
            EXPECT_LE(outcome.worst, 1.0) << at.m << " " << at.keys << " " << at.batch;
        }
    }
}

// Draws one value of every knob that attention reads.
AttentionRequest drawn(const AttentionRequest& base, std::mt19937_64& random) {
    AttentionRequest request = base;
    request.knobs.clear();
    const auto pick = [&](std::initializer_list<const char*> values) {
        return std::string(values.begin()[random() % values.size()]);
    };
    request.knobs = {{"consumer_warpgroups", pick({"1", "2", "3"})},
                     {"stages", pick({"2", "3", "4"})},
                     {"overlap", pick({"auto", "serial", "products", "rescale", "operands", "joint"})},
                     {"turn", pick({"auto", "on", "off"})},
                     {"head_group", pick({"0", "1", "2", "3"})}};
    request.sms = 1 + int(random() % 5);
    return request;
}

// Schedules that do not fit into registers or shared memory are refused and drawn again.
void expect_same_bits(const AttentionRequest& base, int schedules) {
    std::mt19937_64 random(std::uint64_t(base.head_dim));
    std::map<std::string, AttentionKernel> kernels;  // by plan
    const std::vector<AttentionShape> shapes = {{140, 275, 1}};
    std::uint64_t expected = 0;
    int taken = 0, refused = 0;
    while (taken < schedules && refused < 10 * schedules) {
        AttentionKernel kernel;
        const AttentionRequest request = drawn(base, random);
        try {
            kernel = lower_attention(request);
        } catch (const ScheduleError&) {
            refused += 1;
            continue;
        }
        const auto [entry, fresh] = kernels.insert({print_plan(kernel.plan), kernel});
        if (fresh) compile_attention(entry->second);
        entry->second.request.sms = request.sms;
        SimOptions options;
        options.seed = random();
        const AttentionOutcome outcome = run_attention(entry->second, shapes, options, 5);
        std::string text;
        for (const auto& [name, value] : request.knobs) text += name + "=" + value + " ";
        ASSERT_TRUE(outcome.ok()) << text << outcome.fault << ", worst " << outcome.worst;
        if (taken++ == 0) expected = outcome.digest;
        ASSERT_EQ(outcome.digest, expected) << text;
    }
    ASSERT_EQ(taken, schedules);
    SimOptions options;
    EXPECT_NE(run_attention(kernels.begin()->second, shapes, options, 6).digest, expected) << "the digest ignores the data";
    std::printf("head dim %lld: %d schedules, %zu plans, %d refused\n", static_cast<long long>(base.head_dim), taken,
                kernels.size(), refused);
}

// Two hundred schedules in all print the same bits, head dim by head dim.
TEST(AttentionNumerics, SchedulesPrintTheSameBitsAt64) { expect_same_bits({64, 2, 1, causal(37)}, 140); }
TEST(AttentionNumerics, SchedulesPrintTheSameBitsAt128) { expect_same_bits({128, 1, 1, causal()}, 40); }
TEST(AttentionNumerics, SchedulesPrintTheSameBitsAt256) { expect_same_bits({256, 1, 1, {}}, 20); }

}  // namespace
}  // namespace plait::testing
