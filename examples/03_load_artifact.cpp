// Loads a folder that plaitc wrote and runs it: no compiler, no Python, nothing but libplait_runtime.
//
//   load_artifact DIR        an artifact for the host runs on a simulated cluster, all ranks in this process;
//                            one for sm_90a runs as a world of one rank on GPU 0 (compile it with --topology 1x1)
//
// The artifact is AllGather + GEMM (schedules/ag_gemm.json) or GEMM: a, b and, where it has them, bias. Every element of
// every rank is compared with a float64 product. Exit code 0: all right.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "runtime/base/error.h"
#include "runtime/session/bind.h"
#include "runtime/session/session.h"

using namespace plait;
using Values = std::vector<std::uint16_t>;  // bf16
float to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// Every rank's tensors, in the manifest's order: inputs are multiples of 1/8 in [-2, 2], outputs NaN.
std::vector<std::vector<Values>> make_tensors(const Manifest& m, std::vector<RankTensors>* views) {
    std::mt19937 random(7);
    std::vector<std::vector<Values>> data(m.world);
    for (int rank = 0; rank < m.world; ++rank) {
        const auto shapes = tensor_shapes(m, place_of(rank, int(m.nodes), int(m.locals)), m.m_max);
        for (std::size_t t = 0; t < shapes.size(); ++t) {
            const std::int64_t elements = std::accumulate(shapes[t].begin(), shapes[t].end(), 1ll, std::multiplies<>());
            if (m.tensors[t].dtype != "bf16") throw ArgumentError(m.tensors[t].name + " is not bf16", "compile a bf16 graph");
            data[rank].emplace_back(elements, std::uint16_t{0xffff});
            for (std::uint16_t& bits : data[rank].back()) {
                const float value = float(int(random() % 33) - 16) / 8;
                if (!m.tensors[t].output) bits = std::uint16_t(std::bit_cast<std::uint32_t>(value) >> 16);
            }
            (*views)[rank].push_back({data[rank].back().data(), "bf16", shapes[t]});
        }
    }
    return data;
}

std::int64_t count_wrong(const Manifest& m, const std::vector<std::vector<Values>>& data) {
    Values a;  // the gathered rows
    for (const auto& rank : data) a.insert(a.end(), rank[0].begin(), rank[0].end());
    std::int64_t wrong = 0;
    for (const auto& rank : data)
        for (std::int64_t i = 0; i < m.m_max * m.n; ++i) {
            double sum = rank.size() > 3 ? to_float(rank[2][i % m.n]) : 0.0;
            for (std::int64_t k = 0; k < m.k; ++k)
                sum += double(to_float(a[i / m.n * m.k + k])) * to_float(rank[1][k * m.n + i % m.n]);
            // One rounding to bf16 (8 bits) at the end; sums of these inputs are exact in f32.
            if (!(std::abs(to_float(rank.back()[i]) - sum) <= std::abs(sum) / 256)) ++wrong;
        }
    return wrong;
}

void run_on_gpu(const Artifact& artifact, RankTensors views, std::vector<Values>& data) {
    const auto driver = open_cuda_driver();  // DeviceError where there is none
    const auto call = [&](cu::Result result) { check_driver(*driver, result, "the example"); };
    cu::Device device = 0;
    cu::Context context = nullptr;
    call(driver->device_get(&device, 0));
    call(driver->primary_context_retain(&context, device));
    call(driver->context_push(context));
    const auto session = Session::create(Topology::simulated("1x1"), 0, make_process_rendezvous(), driver, {});
    cu::DevicePointer memory = 0;
    for (std::size_t t = 0; t < data.size(); ++t) {
        call(driver->memory_alloc(&memory, data[t].size() * 2));
        call(driver->copy_async(memory, cu::DevicePointer(data[t].data()), data[t].size() * 2, nullptr));
        views[t].data = reinterpret_cast<void*>(memory);
    }
    session->launch(session->attach(artifact), artifact.manifest.m_max, views, nullptr);
    call(driver->copy_async(cu::DevicePointer(data.back().data()), memory, data.back().size() * 2, nullptr));
    call(driver->stream_synchronize(nullptr));
    session->check();
}

int main(int argc, char** argv) try {
    if (argc != 2) throw ArgumentError("no artifact given", "load_artifact DIR, a folder that plaitc wrote");
    const Artifact artifact = load_artifact(argv[1]);
    const Manifest& m = artifact.manifest;
    std::vector<RankTensors> views(m.world);
    auto data = make_tensors(m, &views);
    if (m.arch == "host") {
        SimCluster(Topology::simulated(fmt::format("{}x{}", m.nodes, m.locals)), {})
            .launch(artifact, open_shared_object(artifact.code_file), m.m_max, views);
    } else {
        run_on_gpu(artifact, views[0], data[0]);
    }
    const std::int64_t wrong = count_wrong(m, data);
    fmt::print("{}: M = {}, N = {}, K = {}, {} ranks: {} elements wrong\n", m.name, m.m_max, m.n, m.k, m.world, wrong);
    return wrong == 0 ? 0 : 1;
} catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", error.kind(), error.what());
    return 2;
}
