// tests/compiler/ir/plans/attention_overlap.plan on the simulator: results against float64, and faults planted in the
// plan. That every ordering call is needed is attention_mutation_test's matter.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "compiler/ir/text.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "tests/compiler/verify/plan_edit.h"
#include "tests/sim/harness.h"

namespace plait::testing {
namespace {

constexpr std::int64_t kHeads = 2, kWidth = 128, kMaxRows = 512;

Plan overlap_plan() {
    Plan plan = parse_plan(read_file(PLAIT_SOURCE_DIR "/tests/compiler/ir/plans/attention_overlap.plan"));
    plan.target = "host";
    return plan;
}

Kernel compiled(const Plan& plan) {
    Kernel kernel;
    kernel.topology = Topology::simulated("1x1");
    kernel.topology.sms = 2;
    kernel.target = Target::make("host", kernel.topology);
    kernel.problem = {kMaxRows, kHeads * kWidth, kWidth, {}};
    kernel.plan = plan;
    compile_case(kernel);
    return kernel;
}

struct Tensors {
    std::vector<std::uint16_t> q, k, v, o;
    std::vector<float> lse;

    Tensors(std::int64_t rows, std::mt19937_64& random) {
        std::uniform_real_distribution<float> uniform(-2, 2);
        for (std::vector<std::uint16_t>* t : {&q, &k, &v}) {
            t->resize(std::size_t(rows * kHeads * kWidth));
            for (std::uint16_t& x : *t) x = to_bits(uniform(random), "bf16");
        }
        o.assign(q.size(), to_bits(std::nanf(""), "bf16"));
        lse.assign(std::size_t(rows * kHeads), std::nanf(""));
    }
    static double at(const std::vector<std::uint16_t>& t, std::int64_t row, std::int64_t head, std::int64_t d) {
        return static_cast<double>(from_bits(t[std::size_t((row * kHeads + head) * kWidth + d)], "bf16"));
    }
    // Largest error of output and log-sum-exp over their tolerance; infinite where something was not written.
    double worst(std::int64_t rows) const {
        double worst = 0;
        const auto take = [&](double error, double tolerance) {
            worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error / tolerance);
        };
        for (std::int64_t h = 0; h < kHeads; ++h) {
            for (std::int64_t i = 0; i < rows; ++i) {
                std::vector<double> p(std::size_t(i + 1));
                double sum = 0;
                for (std::int64_t j = 0; j <= i; ++j) {
                    double dot = 0;
                    for (std::int64_t d = 0; d < kWidth; ++d) dot += at(q, i, h, d) * at(k, j, h, d);
                    sum += p[std::size_t(j)] = std::exp(dot / std::sqrt(double(kWidth)));
                }
                take(std::fabs(std::log(sum) - double(lse[std::size_t(h * rows + i)])), 1e-4);
                for (std::int64_t d = 0; d < kWidth; ++d) {
                    double x = 0;
                    for (std::int64_t j = 0; j <= i; ++j) x += p[std::size_t(j)] / sum * at(v, j, h, d);
                    take(std::fabs(x - at(o, i, h, d)), std::fabs(x) / 128 + 0.01);
                }
            }
        }
        return worst;
    }
};

// "" where every launch is right; else the fault, or "wrong result".
std::string fault_of(const Kernel& kernel, std::uint64_t seed, const std::vector<std::int64_t>& rows) {
    SimOptions options;
    options.seed = seed;
    options.max_steps = 3'000'000;
    std::mt19937_64 random(seed);
    try {
        SimCluster cluster(kernel.topology, options);
        for (const std::int64_t m : rows) {
            Tensors t(m, random);
            const std::vector<std::int64_t> shape = {m, kHeads * kWidth};
            cluster.launch(kernel.artifact, kernel.module, m,
                           {{{t.q.data(), "bf16", shape},
                             {t.k.data(), "bf16", shape},
                             {t.v.data(), "bf16", shape},
                             {t.o.data(), "bf16", shape},
                             {t.lse.data(), "f32", {kHeads, m}}}});
            if (!(t.worst(m) <= 1)) return "wrong result";
        }
    } catch (const Error& error) {
        return error.message();
    }
    return "";
}

// Four blocks of keys for the last tile: one masked, one step alone, then a pair.
constexpr std::int64_t kRows = 390;

void expect_fault(const Plan& plan, const std::string& text) {
    const Kernel kernel = compiled(plan);
    std::string found;
    for (std::uint64_t seed = 1; seed <= 8 && found.empty(); ++seed) found = fault_of(kernel, seed, {kRows});
    ASSERT_FALSE(found.empty()) << "no seed noticed";
    EXPECT_NE(found.find(text), std::string::npos) << found;
}

TEST(AttentionPlan, IsRightUnderEverySeed) {
    const Kernel kernel = compiled(overlap_plan());
    for (std::uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(fault_of(kernel, seed, {kRows, 1, 200}), "") << seed;
}

TEST(AttentionPlan, OperandWrittenWhileInFlight) {
    Plan plan = overlap_plan();
    set_operand(&plan, "compute_consumer", Op::SoftmaxOperand, "operand", "even");
    expect_fault(plan, "a register operand is written while matrix group");
}

TEST(AttentionPlan, SlotReleasedBeforeTheWaitOfItsReader) {
    Plan plan = overlap_plan();
    // In the step that masks: release of values in front of the wait that names the output.
    each(program_body(&plan, "compute_consumer"), Op::MmaWait, [](std::vector<Statement>* list, std::size_t i) {
        if (i + 1 >= list->size() || !(*list)[i + 1].has("edge") || (*list)[i + 1].word("edge") != "v_free") return false;
        std::swap((*list)[i], (*list)[i + 1]);
        return true;
    });
    expect_fault(plan, "is not ordered after the read by a matrix operation of agent consumer");
}

TEST(AttentionPlan, RowOfTheNeighbourStored) {
    Plan plan = overlap_plan();
    set_operand(&plan, "compute_consumer", Op::StoreLogSumExp, "index", "head * M + row + 1");
    expect_fault(plan, "runs over the end of lse");
    Plan box = overlap_plan();
    set_operand(&box, "compute_consumer", Op::StoreBox, "y", "row + 1");
    expect_fault(box, "bulk store's write at o of rank 0");
}

TEST(AttentionPlan, MaskOffByOne) {
    for (const char* diagonal : {"row - (blocks - 1) * keys + 1", "row - (blocks - 1) * keys - 1"}) {
        Plan plan = overlap_plan();
        set_operand(&plan, "compute_consumer", Op::MaskCols, "diagonal", diagonal);
        expect_fault(plan, "wrong result");
    }
    Plan ragged = overlap_plan();
    set_operand(&ragged, "compute_consumer", Op::MaskCols, "cols", "M - (blocks - 1) * keys - 1");
    expect_fault(ragged, "wrong result");
}

}  // namespace
}  // namespace plait::testing
