// Runs the hand-written ag_gemm on a simulated cluster and compares each rank's output with a float64 reference.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "runtime/session/cluster.h"
#include "runtime/sim/random.h"
#include "tests/runtime/sim/ag_gemm_kernel.h"

namespace plait::testing {

inline Topology small_cluster(int nodes, int locals, int sms) {
    Topology topology;
    topology.name = "test";
    topology.nodes = nodes;
    topology.gpus_per_node = locals;
    topology.sms = sms;
    return topology;
}

template <class S>
Artifact ag_gemm_artifact() {
    using D = Derived<S>;
    using Args = KernelArgs<S>;
    Artifact artifact;
    Manifest& m = artifact.manifest;
    m.abi_version = kAbiVersion;
    m.name = "ag_gemm_by_hand";
    m.arch = "host";
    m.world = S::world;
    m.nodes = S::nodes;
    m.locals = S::locals;
    m.m_max = S::m_max;
    m.n = S::N;
    m.k = S::K;
    m.shared_bytes = sizeof(KernelShared<S>);
    m.args_bytes = sizeof(Args);
    m.min_ctas = 1;
    m.workspace_bytes = D::workspace_bytes;
    m.agents = {"loader", "relay", "consumer0", "consumer1"};
    m.lets = {{"N", Expr(std::int64_t{S::N})},
              {"K", Expr(std::int64_t{S::K})},
              {"shard", Expr("max(ceil_div(M, world), 1)")},
              {"own", Expr("min(shard, max(M - rank * shard, 0))")}};
    m.tensors = {{"a", "bf16", {Expr("own"), Expr("K")}, false, offsetof(Args, a)},
                 {"b", "bf16", {Expr("K"), Expr("N")}, false, offsetof(Args, b)},
                 {"c", "bf16", {Expr("M"), Expr("N")}, true, offsetof(Args, c)},
                 {"bias", "bf16", {Expr("N")}, false, offsetof(Args, bias)}};
    const std::int64_t slot = D::shard_max * S::K * 2, tile_m = S::tile_m;
    auto map = [&](const char* name, std::int64_t index, const char* memory, Expr base, std::vector<Expr> extent,
                   std::vector<Expr> stride, std::vector<std::int64_t> box, std::uint64_t offset) {
        m.maps.push_back({name, "bf16", index, memory, base, extent, stride, box,
                          offset + static_cast<std::uint64_t>(index) * sizeof(TensorMap)});
    };
    map("a_map", 0, "a", 0, {Expr("K"), Expr("own"), 1}, {Expr("K * 2"), Expr("K * own * 2")}, {64, tile_m, 1},
        offsetof(Args, a_map));
    map("a_map", 1, "workspace", 0, {Expr("K"), Expr("shard"), Expr("2 * world")}, {Expr("K * 2"), Expr(slot)},
        {64, tile_m, 1}, offsetof(Args, a_map));
    map("a_map", 2, "workspace", 0, {Expr("K"), Expr("M % shard"), Expr("2 * world")}, {Expr("K * 2"), Expr(slot)},
        {64, tile_m, 1}, offsetof(Args, a_map));
    map("b_map", 0, "b", 0, {Expr("N"), Expr("K"), 1}, {Expr("N * 2"), Expr("N * K * 2")}, {64, 64, 1},
        offsetof(Args, b_map));
    map("c_map", 0, "c", 0, {Expr("N"), Expr("shard"), Expr("M / shard")}, {Expr("N * 2"), Expr("shard * N * 2")},
        {64, 64, 1}, offsetof(Args, c_map));
    map("c_map", 1, "c", Expr("M / shard * shard * N * 2"), {Expr("N"), Expr("M % shard"), 1},
        {Expr("N * 2"), Expr("M % shard * N * 2")}, {64, 64, 1}, offsetof(Args, c_map));
    m.wait_sites = {{0, "inter_send", "loader", "fifo_completed"},
                    {1, "intra_comm", "loader", "entered"},
                    {2, "inter_send", "loader", "fifo_completed"},
                    {3, "compute", "loader", "a_ready"}};
    return artifact;
}

// 16-byte aligned, and never empty.
struct Buffer {
    std::vector<std::uint64_t> words;
    std::int64_t rows = 0, cols = 0;
    bf16* data() { return reinterpret_cast<bf16*>(words.data()); }
    bf16& at(std::int64_t r, std::int64_t c) { return data()[r * cols + c]; }
    void resize(std::int64_t r, std::int64_t c) {
        rows = r;
        cols = c;
        words.assign(static_cast<std::size_t>(r * c) / 4 + 4, 0x7FC07FC07FC07FC0ull);  // NaN
    }
    TensorView view(std::vector<std::int64_t> shape) { return {data(), "bf16", std::move(shape)}; }
};

template <class S>
struct RankBuffers {
    Buffer a, b, c, bias;
};

inline double random_value(Random& random) { return static_cast<double>(random.below(2001)) / 1000.0 - 1.0; }
inline void fill_random(Buffer& buffer, Random& random) {
    for (std::int64_t i = 0; i < buffer.rows * buffer.cols; ++i)
        buffer.data()[i] = from_f32<bf16>(static_cast<float>(random_value(random)));
}

// The largest error of any element of one rank's output over its tolerance: rounding of the output and of fp32 sums of
// K products below 1.
template <class S>
double worst_error_of_rank(std::vector<RankBuffers<S>>& ranks, std::size_t which, std::int64_t M) {
    const std::int64_t shard = std::max<std::int64_t>(ceil_div(M, S::world), 1);
    RankBuffers<S>& rank = ranks[which];
    double worst = 0;
    for (std::int64_t r = 0; r < M; ++r) {
        Buffer& a = ranks[static_cast<std::size_t>(r / shard)].a;
        for (std::int64_t c = 0; c < S::N; ++c) {
            double sum = to_f32(rank.bias.at(0, c)), size = std::abs(sum);
            for (std::int64_t k = 0; k < S::K; ++k) {
                const double product = static_cast<double>(to_f32(a.at(r % shard, k))) * to_f32(rank.b.at(k, c));
                sum += product;
                size += std::abs(product);
            }
            const double expected = std::max(sum, 0.0), got = to_f32(rank.c.at(r, c));
            const double error = std::abs(got - expected), tolerance = std::abs(expected) / 256 + size * 1e-5;
            if (!(error <= tolerance * worst))
                worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : error / tolerance;
        }
    }
    return worst;
}
template <class S>
double worst_error(std::vector<RankBuffers<S>>& ranks, std::int64_t M) {
    double worst = 0;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        worst = std::max(worst, worst_error_of_rank<S>(ranks, rank, M));
    return worst;
}

template <class S>
void fill_case(std::vector<RankBuffers<S>>& ranks, std::int64_t M, Random& random) {
    ranks.resize(S::world);
    const std::int64_t shard = std::max<std::int64_t>(ceil_div(M, S::world), 1);
    for (std::int64_t r = 0; r < S::world; ++r) {
        RankBuffers<S>& rank = ranks[static_cast<std::size_t>(r)];
        rank.a.resize(std::min(shard, std::max<std::int64_t>(M - r * shard, 0)), S::K);
        rank.b.resize(S::K, S::N);
        rank.c.resize(M, S::N);
        rank.bias.resize(1, S::N);
        fill_random(rank.a, random);
        fill_random(rank.b, random);
        fill_random(rank.bias, random);
    }
}

template <class S>
std::vector<RankTensors> tensors_of(std::vector<RankBuffers<S>>& ranks) {
    std::vector<RankTensors> tensors;
    for (RankBuffers<S>& rank : ranks)
        tensors.push_back({rank.a.view({rank.a.rows, S::K}), rank.b.view({S::K, S::N}),
                           rank.c.view({rank.c.rows, S::N}), rank.bias.view({S::N})});
    return tensors;
}

struct CaseResult {
    double worst = 0;
    std::uint64_t unwritten = 0, steps = 0;
    LaunchReport last;
};

// Launches with the given values of M, one after the other, on one cluster; throws what the cluster throws.
template <class S, Fault F = Fault::None>
CaseResult run_case(const SimOptions& options, std::vector<std::int64_t> ms, int sms = 3) {
    SimCluster cluster(small_cluster(S::nodes, S::locals, sms), options);
    const Artifact artifact = ag_gemm_artifact<S>();
    Random random(options.seed * 77 + 1);
    CaseResult result;
    for (std::int64_t m : ms) {
        std::vector<RankBuffers<S>> ranks;
        fill_case<S>(ranks, m, random);
        result.last = cluster.launch(artifact, {AgGemm<S, F>::entry, nullptr}, m, tensors_of<S>(ranks));
        result.worst = std::max(result.worst, worst_error<S>(ranks, m));
        for (const UnwrittenOutput& hole : result.last.unwritten) result.unwritten += hole.bytes;
        result.steps += result.last.steps;
    }
    return result;
}

}  // namespace plait::testing
