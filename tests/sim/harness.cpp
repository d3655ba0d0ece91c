#include "tests/sim/harness.h"

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/backend/clang_jit.h"
#include "compiler/passes/lower.h"
#include "runtime/base/error.h"
#include "runtime/session/bind.h"

namespace plait::testing {
namespace {

constexpr double kBf16Step = 1.0 / 256, kF16Step = 1.0 / 2048;

float half_to_float(std::uint16_t h) {
    const int exponent = (h >> 10) & 31, mantissa = h & 1023;
    const float sign = (h & 0x8000) ? -1.0f : 1.0f;
    if (exponent == 31) return mantissa ? std::nanf("") : sign * INFINITY;
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
    return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

std::uint16_t float_to_half(float x) {   // test inputs only: normal range, round to nearest even
    if (x == 0) return std::signbit(x) ? 0x8000 : 0;
    int exponent;
    const float m = std::frexp(std::fabs(x), &exponent);      // m in [0.5, 1)
    if (exponent < -13) return std::signbit(x) ? 0x8000 : 0;
    long mantissa = std::lrint(std::ldexp(m, 11));              // 1024..2048
    if (mantissa == 2048) mantissa = 1024, ++exponent;
    return static_cast<std::uint16_t>((std::signbit(x) ? 0x8000 : 0) | ((exponent + 14) << 10) | (mantissa - 1024));
}

double pointwise(const std::string& op, double x, double operand) {
    if (op == "bias" || op == "residual") return x + operand;
    if (op == "scale") return x * 0.5;
    if (op == "relu") return x > 0 ? x : 0;
    if (op == "gelu") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    if (op == "gelu_tanh") return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    if (op == "silu") return x / (1 + std::exp(-x));
    throw InternalError("no reference for pointwise op " + op);
}

struct Matrix {
    std::int64_t rows = 0, cols = 0;
    std::vector<std::uint16_t> bits;
    std::vector<double> value;
    void fill(std::int64_t r, std::int64_t c, const std::string& dtype, std::mt19937_64& random) {
        rows = r, cols = c;
        bits.resize(r * c), value.resize(r * c);
        std::uniform_real_distribution<float> uniform(-1, 1);
        for (std::size_t i = 0; i < bits.size(); ++i) {
            bits[i] = to_bits(uniform(random), dtype);
            value[i] = from_bits(bits[i], dtype);
        }
    }
};

struct RankData {
    Matrix b, bias, residual;
    std::vector<std::uint16_t> c;
};

}  // namespace

std::uint16_t to_bits(float x, const std::string& dtype) {
    if (dtype == "f16") return float_to_half(x);
    std::uint32_t u;
    std::memcpy(&u, &x, 4);
    if ((u & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

float from_bits(std::uint16_t x, const std::string& dtype) {
    if (dtype == "f16") return half_to_float(x);
    const std::uint32_t u = static_cast<std::uint32_t>(x) << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
}

Graph make_graph(const Case& c) {
    Graph g;
    g.name = c.gather ? "ag_gemm" : "matmul";
    g.inputs.push_back({"a", c.dtype, {Expr("M"), Expr("K")}, c.gather ? 0 : -1});
    g.inputs.push_back({"b", c.dtype, c.transpose_b ? std::vector<Expr>{Expr("N"), Expr("K")} : std::vector<Expr>{Expr("K"), Expr("N")}, -1});
    std::string value = "a";
    if (c.gather) {
        GraphOp op;
        op.op = "all_gather", op.result = value = "a_full", op.inputs = {"a"};
        g.ops.push_back(op);
    }
    GraphOp mm;
    mm.op = "matmul", mm.result = "c0", mm.inputs = {value, "b"}, mm.transpose_b = c.transpose_b;
    g.ops.push_back(mm);
    value = "c0";
    int i = 0;
    for (const std::string& name : c.pointwise) {
        GraphOp op;
        op.op = name, op.inputs = {value}, op.value = 0.5, op.result = "c" + std::to_string(++i);
        if (name == "bias") g.inputs.push_back({"bias", c.dtype, {Expr("N")}, -1}), op.inputs.push_back("bias");
        if (name == "residual") g.inputs.push_back({"residual", c.dtype, {Expr("M"), Expr("N")}, -1}), op.inputs.push_back("residual");
        g.ops.push_back(op);
        value = op.result;
    }
    g.output = value;
    g.output_dtype = c.dtype;
    return g;
}

Kernel lower_case(const Case& c) {
    Kernel k;
    k.c = c;
    k.topology = Topology::simulated(c.topology);
    k.topology.sms = c.sms;
    k.target = Target::make("host", k.topology);
    k.graph = make_graph(c);
    k.problem = {c.m_max ? c.m_max : std::max<std::int64_t>(c.m, 1), c.n, c.k};
    const std::map<std::string, std::string> small = {{"tile_m", "64"}, {"tile_n", "64"}, {"consumer_warpgroups", "1"},
                                                      {"stages", "2"}, {"chunk_rows", "32"}, {"piece_bytes", "1024"},
                                                      {"pieces", "2"}, {"raster_group", "2"}, {"intra_comm_sms", "1"},
                                                      {"inter_send_sms", "1"}};
    for (const auto& [name, value] : small) k.schedule.set(name, value);
    if (k.topology.gpus_per_node == 1 || !c.gather) k.schedule.set("intra_comm", "none");
    if (k.topology.nodes == 1 || !c.gather) k.schedule.set("inter_send", "none");
    for (const auto& [name, value] : c.knobs) k.schedule.set(name, value);
    k.plan = lower(k.graph, k.schedule, k.problem, k.topology, k.target);
    return k;
}

void compile_case(Kernel& kernel) {
    CompileOptions options;
    options.cache_mode = "jit_only";
    kernel.artifact = compile_plan(kernel.plan, kernel.problem, kernel.target, options);
    kernel.module = load_host_object(kernel.artifact.code);
}

Kernel build(const Case& c) {
    Kernel k = lower_case(c);
    compile_case(k);
    return k;
}

namespace {

// One rank's inputs and output of one launch, and the views that the launch takes.
struct LaunchData {
    Matrix a;
    std::vector<RankData> ranks;
    std::vector<std::vector<std::uint16_t>> shards;
    std::vector<RankTensors> tensors;

    LaunchData(const Kernel& kernel, std::int64_t rows, std::mt19937_64& random) {
        const Case& c = kernel.c;
        const int world = kernel.topology.world();
        a.fill(rows, c.k, c.dtype, random);
        ranks.resize(world), shards.resize(world), tensors.resize(world);
        const std::int64_t shard = c.gather ? std::max<std::int64_t>((rows + world - 1) / world, 1) : rows;
        for (int r = 0; r < world; ++r) {
            const std::int64_t first = c.gather ? std::min(rows, r * shard) : 0;
            const std::int64_t last = c.gather ? std::min(rows, first + shard) : rows;
            shards[r].assign(a.bits.begin() + first * c.k, a.bits.begin() + last * c.k);
            ranks[r].b.fill(c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, c.dtype, random);
            ranks[r].c.assign(rows * c.n, c.dtype == "f16" ? 0x7e00 : to_bits(std::nanf(""), "bf16"));
            for (const ManifestTensor& t : kernel.artifact.manifest.tensors)
                tensors[r].push_back(view(t, c, r, rows, last - first, random));
        }
    }

    TensorView view(const ManifestTensor& t, const Case& c, int r, std::int64_t rows, std::int64_t own_rows, std::mt19937_64& random) {
        RankData& d = ranks[r];
        if (t.output) return {d.c.data(), t.dtype, {rows, c.n}};
        if (t.name == "a") return {shards[r].data(), t.dtype, {own_rows, c.k}};
        if (t.name == "b") return {d.b.bits.data(), t.dtype, {d.b.rows, d.b.cols}};
        if (t.name == "bias") {
            d.bias.fill(1, c.n, c.dtype, random);
            return {d.bias.bits.data(), t.dtype, {c.n}};
        }
        d.residual.fill(rows, c.n, c.dtype, random);
        return {d.residual.bits.data(), t.dtype, {rows, c.n}};
    }

    double reference(const Case& c, int r, std::int64_t i, std::int64_t j) const {
        const RankData& d = ranks[r];
        double x = 0;
        for (std::int64_t k = 0; k < c.k; ++k)
            x += a.value[i * c.k + k] * (c.transpose_b ? d.b.value[j * c.k + k] : d.b.value[k * c.n + j]);
        for (const std::string& op : c.pointwise)
            x = pointwise(op, x, op == "bias" ? d.bias.value[j] : op == "residual" ? d.residual.value[i * c.n + j] : 0);
        return x;
    }
};

std::uint64_t fnv1a(std::uint64_t digest, const std::vector<std::uint16_t>& bits) {
    for (const std::uint16_t x : bits) digest = (digest ^ x) * 1099511628211ull;
    return digest;
}

void compare(const Kernel& kernel, const LaunchData& data, std::int64_t rows, Outcome* outcome) {
    const Case& c = kernel.c;
    const double step = c.dtype == "f16" ? kF16Step : kBf16Step;
    for (int r = 0; r < kernel.topology.world(); ++r) {
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < c.n; ++j) {
                const double x = data.reference(c, r, i, j);
                const double got = from_bits(data.ranks[r].c[i * c.n + j], c.dtype);
                const double error = std::isnan(got) ? INFINITY : std::fabs(got - x);
                outcome->worst_error = std::max(outcome->worst_error, error);
                outcome->worst = std::max(outcome->worst, error / (step * std::fabs(x) + 1e-5 * c.k + 1e-6));
            }
        }
    }
}

}  // namespace

Outcome run(const Kernel& kernel, const std::vector<std::int64_t>& rows, const SimOptions& options) {
    Outcome outcome;
    std::mt19937_64 random(options.seed * 7919 + 17);
    try {
        SimCluster cluster(kernel.topology, options);
        for (const std::int64_t m : rows) {
            LaunchData data(kernel, m, random);
            outcome.report = cluster.launch(kernel.artifact, kernel.module, m, data.tensors);
            compare(kernel, data, m, &outcome);
            for (const RankData& rank : data.ranks) outcome.digest = fnv1a(outcome.digest, rank.c);
        }
    } catch (const Error& e) {
        outcome.fault = e.kind() + ": " + e.message();
    }
    return outcome;
}

Outcome run(const Kernel& kernel, std::uint64_t seed, NetworkContract network, int launches, std::int64_t m, bool trace) {
    SimOptions options;
    options.seed = seed, options.network = network, options.trace = trace;
    options.max_steps = 20'000'000;
    return run(kernel, std::vector<std::int64_t>(launches, m >= 0 ? m : kernel.c.m), options);
}

}  // namespace plait::testing
