// Grouped matmuls in simulation: a request, its compiled kernel, and launches with random operands and given segments.
#pragma once
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compiler/backend/clang_jit.h"
#include "compiler/compile.h"
#include "compiler/passes/lower.h"
#include "runtime/base/error.h"
#include "tests/sim/harness.h"

namespace plait::testing {

struct GroupedCase {
    std::string name;
    std::int64_t n = 72, k = 136;
    bool transpose_b = true;
    std::int64_t tokens = 0, second_tokens = 0;  // rows are gathered from so many; 0: x lies sorted, there is no second
    std::map<std::string, std::string> knobs;
    std::vector<std::string> pointwise;
    std::int64_t m_max = 600, experts_max = 16;
    bool gathers() const { return tokens > 0; }

    Graph graph() const {
        Graph g;
        g.name = "grouped";
        const auto dims = [](std::vector<std::string> names) {
            std::vector<Expr> shape;
            for (const std::string& name : names) shape.push_back(Expr(name));
            return shape;
        };
        g.inputs = {{"x", "bf16", dims({gathers() ? "tokens" : "M", "K"})},
                    {"w", "bf16", transpose_b ? dims({"experts", "N", "K"}) : dims({"experts", "K", "N"})},
                    {"offs", "i32", dims({"experts"})}};
        GraphOp op;
        op.op = "grouped_matmul", op.result = "y", op.inputs = {"x", "w", "offs"}, op.transpose_b = transpose_b;
        if (gathers()) g.inputs.push_back({"rows", "i32", dims({"M"})}), op.inputs.push_back("rows");
        if (second_tokens > 0) g.inputs.push_back({"second", "bf16", dims({"second_tokens", "K"})}), op.inputs.push_back("second");
        g.ops.push_back(op);
        for (const std::string& function : pointwise) {
            GraphOp step;
            step.op = function, step.inputs = {g.ops.back().result}, step.result = "y" + std::to_string(g.ops.size());
            step.value = 0.5;
            if (function == "residual") g.inputs.push_back({"residual", "bf16", dims({"M", "N"})}), step.inputs.push_back("residual");
            g.ops.push_back(step);
        }
        g.output = g.ops.back().result;
        return g;
    }
};

struct GroupedKernel {
    GroupedCase c;
    Topology topology;
    Target target;
    Problem problem;
    Plan plan;
    Artifact artifact;
    HostModule module;
};

inline void compile_grouped(GroupedKernel& kernel) {
    CompileOptions options;
    options.cache_mode = "jit_only";
    kernel.artifact = compile_plan(kernel.plan, kernel.problem, kernel.target, options);
    kernel.module = load_host_object(kernel.artifact.code);
}

inline GroupedKernel lower_grouped(const GroupedCase& c) {
    GroupedKernel kernel;
    kernel.c = c;
    kernel.topology = Topology::simulated("1x1");
    kernel.topology.sms = 3;
    kernel.target = Target::make("host", kernel.topology);
    kernel.problem = {c.m_max, c.n, c.k, {{"experts", c.experts_max}}};
    if (c.gathers()) kernel.problem.limits["tokens"] = c.tokens;
    if (c.second_tokens > 0) kernel.problem.limits["second_tokens"] = c.second_tokens;
    Schedule schedule;
    for (const auto& [knob, value] : std::map<std::string, std::string>{
             {"tile_m", "64"}, {"tile_n", "64"}, {"consumer_warpgroups", "1"}, {"stages", "3"}, {"raster_group", "2"}})
        schedule.set(knob, value);
    for (const auto& [knob, value] : c.knobs) schedule.set(knob, value);
    kernel.plan = lower(c.graph(), schedule, kernel.problem, kernel.topology, kernel.target);
    return kernel;
}

inline GroupedKernel build_grouped(const GroupedCase& c) {
    GroupedKernel kernel = lower_grouped(c);
    compile_grouped(kernel);
    return kernel;
}

// Operands of one launch, drawn by a seed alone, and the result it must have.
class GroupedLaunch {
public:
    GroupedLaunch(const GroupedCase& c, const std::vector<std::int64_t>& counts, std::uint64_t seed)
        : c_(c), experts_(std::int64_t(counts.size())), random_(seed * 7919 + 3) {
        for (const std::int64_t count : counts) offs.push_back(std::int32_t(rows_ += count));
        fill(x_, (c.gathers() ? c.tokens : rows_) * c.k);
        fill(second_, c.second_tokens * c.k);
        fill(w_, experts_ * c.n * c.k);
        fill(residual_, rows_ * c.n);
        for (std::int64_t i = 0; c.gathers() && i < rows_; ++i)
            rows.push_back(std::int32_t(random_() % std::uint64_t(c.tokens + c.second_tokens)));
        out.assign(rows_ * c.n, to_bits(std::nanf(""), "bf16"));
    }

    RankTensors tensors(const Manifest& manifest) {
        const std::int64_t x_rows = c_.gathers() ? c_.tokens : rows_;
        std::map<std::string, TensorView> views = {
            {"x", {x_.data(), "bf16", {x_rows, c_.k}}},
            {"second", {second_.data(), "bf16", {c_.second_tokens, c_.k}}},
            {"w", {w_.data(), "bf16", c_.transpose_b ? std::vector<std::int64_t>{experts_, c_.n, c_.k} : std::vector<std::int64_t>{experts_, c_.k, c_.n}}},
            {"offs", {offs.data(), "i32", {experts_}}},
            {"rows", {rows.data(), "i32", {rows_}}},
            {"residual", {residual_.data(), "bf16", {rows_, c_.n}}}};
        RankTensors result;
        for (const ManifestTensor& t : manifest.tensors)
            result.push_back(t.output ? TensorView{out.data(), "bf16", {rows_, c_.n}} : views.at(t.name));
        return result;
    }

    // Largest error over its bound; infinite where an element was not written.
    double worst() const {
        double worst = 0;
        std::int64_t row = 0;
        for (std::int64_t e = 0; e < experts_; ++e) {
            for (; row < offs[e]; ++row) {
                for (std::int64_t j = 0; j < c_.n; ++j) {
                    const double expected = reference(e, row, j), got = from_bits(out[row * c_.n + j], "bf16");
                    const double error = std::isnan(got) ? INFINITY : std::fabs(got - expected);
                    worst = std::max(worst, error / (std::fabs(expected) / 256 + 1e-5 * double(c_.k) + 1e-6));
                }
            }
        }
        return worst;
    }
    std::int64_t m() const { return rows_; }

    std::vector<std::int32_t> offs, rows;
    std::vector<std::uint16_t> out;

private:
    void fill(std::vector<std::uint16_t>& values, std::int64_t count) {
        std::uniform_real_distribution<float> uniform(-1, 1);
        values.resize(std::size_t(count));
        for (std::uint16_t& x : values) x = to_bits(uniform(random_), "bf16");
    }
    double reference(std::int64_t e, std::int64_t row, std::int64_t j) const {
        const std::int64_t at = c_.gathers() ? rows[row] : row;
        const std::uint16_t* x = !c_.gathers() || at < c_.tokens ? &x_[at * c_.k] : &second_[(at - c_.tokens) * c_.k];
        double sum = 0;
        for (std::int64_t k = 0; k < c_.k; ++k) {
            const std::int64_t w = (e * c_.n + (c_.transpose_b ? j : 0)) * c_.k + k;
            sum += double(from_bits(x[k], "bf16")) *
                   from_bits(w_[c_.transpose_b ? w : (e * c_.k + k) * c_.n + j], "bf16");
        }
        for (const std::string& function : c_.pointwise)
            sum = function == "residual" ? sum + from_bits(residual_[row * c_.n + j], "bf16") : function == "relu" ? std::max(sum, 0.0) : sum * 0.5;
        return sum;
    }

    const GroupedCase& c_;
    std::int64_t experts_, rows_ = 0;
    std::mt19937_64 random_;
    std::vector<std::uint16_t> x_, second_, w_, residual_;
};

// One launch on a cluster of its own; what was thrown, or "wrong result", or nothing. `change` may spoil the lists.
template <class Change>
std::string launch_grouped(const GroupedKernel& kernel, GroupedLaunch& launch, std::uint64_t seed, Change change) {
    SimOptions options;
    options.seed = seed, options.max_steps = 20'000'000;
    try {
        SimCluster cluster(kernel.topology, options);
        change(launch);
        const LaunchReport report =
            cluster.launch(kernel.artifact, kernel.module, launch.m(), {launch.tensors(kernel.artifact.manifest)});
        if (!report.unwritten.empty()) return "unwritten output";
    } catch (const Error& error) {
        return error.kind() + ": " + error.message();
    }
    return launch.worst() <= 1.0 ? "" : "wrong result";
}
inline std::string launch_grouped(const GroupedKernel& kernel, const std::vector<std::int64_t>& counts, std::uint64_t seed) {
    GroupedLaunch launch(kernel.c, counts, seed);
    return launch_grouped(kernel, launch, seed, [](GroupedLaunch&) {});
}

}  // namespace plait::testing
