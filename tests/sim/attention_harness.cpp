#include "tests/sim/attention_harness.h"

#include <cmath>
#include <random>

#include "compiler/backend/clang_jit.h"
#include "runtime/base/error.h"
#include "runtime/session/bind.h"
#include "tests/sim/harness.h"

namespace plait::testing {
namespace {

struct HeadTensor {
    std::vector<std::int64_t> shape;  // as the caller has it
    std::vector<std::uint16_t> bits;
    std::vector<double> value;
};

struct LaunchData {
    AttentionShape at;
    HeadTensor q, k, v;
    std::vector<std::uint16_t> out;
    std::vector<float> lse;
    std::vector<RankTensors> tensors;
};

std::vector<std::int64_t> shape_of(const AttentionRequest& r, std::int64_t batch, std::int64_t rows, std::int64_t heads) {
    if (r.attributes.layout == "bhsd") return {batch, heads, rows, r.head_dim};
    return {batch, rows, heads, r.head_dim};
}

// Element 0 of row `row` of one head.
std::size_t offset(const AttentionRequest& r, std::int64_t rows, std::int64_t heads, std::int64_t b, std::int64_t row,
                   std::int64_t head) {
    if (r.attributes.layout == "bhsd") return std::size_t(((b * heads + head) * rows + row) * r.head_dim);
    return std::size_t(((b * rows + row) * heads + head) * r.head_dim);
}

// Rows differ in size, so that maxima grow by more and by less than the threshold from block to block.
HeadTensor random_tensor(const AttentionRequest& r, std::int64_t batch, std::int64_t rows, std::int64_t heads, float size,
                         std::mt19937_64& random) {
    HeadTensor t;
    t.shape = shape_of(r, batch, rows, heads);
    t.bits.resize(std::size_t(batch * rows * heads * r.head_dim));
    t.value.resize(t.bits.size());
    std::uniform_real_distribution<float> uniform(-1, 1), spread(0.25f, 1.75f);
    for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t row = 0; row < rows; ++row) {
            const float scale = size * spread(random);
            for (std::int64_t h = 0; h < heads; ++h) {
                const std::size_t first = offset(r, rows, heads, b, row, h);
                for (std::int64_t d = 0; d < r.head_dim; ++d) {
                    t.bits[first + d] = to_bits(scale * uniform(random), r.dtype);
                    t.value[first + d] = from_bits(t.bits[first + d], r.dtype);
                }
            }
        }
    }
    return t;
}

LaunchData make_data(const AttentionKernel& kernel, const AttentionShape& at, std::mt19937_64& random) {
    const AttentionRequest& r = kernel.request;
    LaunchData d;
    d.at = at;
    d.q = random_tensor(r, at.batch, at.m, r.heads, 6, random);
    d.k = random_tensor(r, at.batch, at.keys, r.kv_heads, 2, random);
    d.v = random_tensor(r, at.batch, at.keys, r.kv_heads, 1, random);
    d.out.assign(d.q.bits.size(), r.dtype == "f16" ? 0x7e00 : to_bits(std::nanf(""), "bf16"));
    d.lse.assign(std::size_t(at.batch * r.heads * at.m), std::nanf(""));
    d.tensors.resize(1);
    for (const ManifestTensor& t : kernel.artifact.manifest.tensors) {
        if (t.name == "lse")
            d.tensors[0].push_back({d.lse.data(), t.dtype, {at.batch, r.heads, at.m}});
        else if (t.output)
            d.tensors[0].push_back({d.out.data(), t.dtype, d.q.shape});
        else
            for (auto [name, tensor] : {std::pair{"q", &d.q}, {"k", &d.k}, {"v", &d.v}})
                if (t.name == name) d.tensors[0].push_back({tensor->bits.data(), t.dtype, tensor->shape});
    }
    return d;
}

double over(double got, double expected, double bound) {
    if (std::isinf(expected)) return got == expected ? 0 : INFINITY;
    return std::isnan(got) ? INFINITY : std::fabs(got - expected) / bound;
}

// Weights are rounded to the tensors' dtype before they meet V, the result once more: half an ulp of each.
double worst_of_row(const AttentionRequest& r, const LaunchData& d, std::int64_t b, std::int64_t h, std::int64_t i) {
    const double scale = r.attributes.scale != 0 ? r.attributes.scale : 1 / std::sqrt(double(r.head_dim));
    const double step = r.dtype == "f16" ? 1.0 / 2048 : 1.0 / 256;
    const std::int64_t kv = h / (r.heads / r.kv_heads);
    const std::int64_t seen = r.attributes.causal
                                  ? std::min(d.at.keys, std::max<std::int64_t>(0, i + r.attributes.causal_offset + 1))
                                  : d.at.keys;
    const double* q = d.q.value.data() + offset(r, d.at.m, r.heads, b, i, h);
    std::vector<double> weight(static_cast<std::size_t>(seen));
    double maximum = -INFINITY, sum = 0, largest = 0;  // largest: sum of absolute products of any score
    for (std::int64_t j = 0; j < seen; ++j) {
        const double* k = d.k.value.data() + offset(r, d.at.keys, r.kv_heads, b, j, kv);
        double x = 0, absolute = 0;
        for (std::int64_t e = 0; e < r.head_dim; ++e) x += q[e] * k[e], absolute += std::fabs(q[e] * k[e]);
        largest = std::max(largest, absolute * scale);
        weight[std::size_t(j)] = x * scale;
        maximum = std::max(maximum, x * scale);
    }
    for (double& w : weight) sum += w = std::exp(w - maximum);
    std::vector<double> result(std::size_t(r.head_dim), 0.0), size(std::size_t(r.head_dim), 0.0);
    for (std::int64_t j = 0; j < seen; ++j) {
        const double* v = d.v.value.data() + offset(r, d.at.keys, r.kv_heads, b, j, kv);
        for (std::int64_t e = 0; e < r.head_dim; ++e) {
            result[std::size_t(e)] += weight[std::size_t(j)] / sum * v[e];
            size[std::size_t(e)] += weight[std::size_t(j)] / sum * std::fabs(v[e]);
        }
    }
    double worst = 0;
    const std::size_t first = offset(r, d.at.m, r.heads, b, i, h);
    for (std::int64_t e = 0; e < r.head_dim; ++e) {
        const double bound = 1.02 * step * (std::fabs(result[std::size_t(e)]) + size[std::size_t(e)]) + 1e-5;
        worst = std::max(worst, over(from_bits(d.out[first + std::size_t(e)], r.dtype), result[std::size_t(e)], bound));
    }
    if (r.lse) {
        const double lse = seen == 0 ? -INFINITY : maximum + std::log(sum);
        const double lse_bound = 1e-5 + 8 * std::ldexp(largest, -24) + 2e-6 * std::fabs(lse);
        worst = std::max(worst, over(d.lse[std::size_t((b * r.heads + h) * d.at.m + i)], lse, lse_bound));
    }
    return worst;
}

void hash(std::uint64_t* digest, const void* data, std::size_t bytes) {
    const auto* p = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) *digest = (*digest ^ p[i]) * 1099511628211ull;
}

}  // namespace

AttentionKernel lower_attention(const AttentionRequest& request) {
    AttentionKernel kernel;
    kernel.request = request;
    kernel.plan = request.plan();
    return kernel;
}

void compile_attention(AttentionKernel& kernel) {
    CompileOptions options;
    options.cache_mode = "jit_only";
    kernel.artifact = compile_plan(kernel.plan, kernel.request.problem(), kernel.request.target(), options);
    kernel.module = load_host_object(kernel.artifact.code);
}

AttentionKernel build_attention(const AttentionRequest& request) {
    AttentionKernel kernel = lower_attention(request);
    compile_attention(kernel);
    return kernel;
}

AttentionOutcome run_attention(const AttentionKernel& kernel, const std::vector<AttentionShape>& shapes,
                               const SimOptions& options, std::uint64_t data_seed) {
    AttentionOutcome outcome;
    outcome.digest = 14695981039346656037ull;
    std::mt19937_64 random(data_seed * 7919 + 17);
    const AttentionRequest& r = kernel.request;
    try {
        SimCluster cluster(r.cluster(), options);
        for (const AttentionShape& at : shapes) {
            LaunchData data = make_data(kernel, at, random);
            cluster.launch(kernel.artifact, kernel.module, at.m, data.tensors);
            for (std::int64_t b = 0; b < at.batch; ++b) {
                for (std::int64_t h = 0; h < r.heads; ++h)
                    for (std::int64_t i = 0; i < at.m; ++i)
                        outcome.worst = std::max(outcome.worst, worst_of_row(r, data, b, h, i));
            }
            hash(&outcome.digest, data.out.data(), data.out.size() * sizeof(data.out[0]));
            if (r.lse) hash(&outcome.digest, data.lse.data(), data.lse.size() * sizeof(data.lse[0]));
        }
    } catch (const Error& e) {
        outcome.fault = e.kind() + ": " + e.message();
    }
    return outcome;
}

}  // namespace plait::testing
