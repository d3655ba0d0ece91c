// What the arguments of a launch cost on the host: bound for the first time, again at the same addresses, and with a
// new input.
//
//   build/bin/bench_launch_binding
//
// Tensor maps are encoded for the host machine: the driver's encoder is not in these figures.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "compiler/backend/make_manifest.h"
#include "compiler/ir/request.h"
#include "compiler/passes/lower.h"
#include "runtime/session/argument_binder.h"

namespace plait {
namespace {

struct Case {
    Manifest manifest;
    RankPlace place;
    RankTensors tensors;
    Launch launch = {};

    explicit Case(const std::string& name) {
        const ScheduleFile file = load_schedule_file(PLAIT_SOURCE_DIR "/schedules/" + name + ".json");
        const Topology topology = Topology::simulated(name == "ag_gemm" ? "1x2" : "1x1");
        Schedule schedule = file.schedule;
        if (name == "ag_gemm") schedule.set("inter_send", "none");
        const Target target = Target::make("sm_90a", topology);
        manifest = make_manifest(lower(file.graph, schedule, file.problem, topology, target), file.problem, "bench");
        place = place_of(0, topology.nodes, topology.gpus_per_node);
        launch.m = manifest.m_max;
        launch.workspace[0] = address(64);
        for (const auto& shape : tensor_shapes(manifest, place, launch.m, file.problem.limits))
            tensors.push_back({address(tensors.size()), manifest.tensors[tensors.size()].dtype, shape});
    }
    static unsigned char* address(std::uint64_t number) {  // never read
        return reinterpret_cast<unsigned char*>((number + 1) << 40);
    }
};

void first(benchmark::State& state, const std::string& name) {
    const Case c(name);
    for (auto _ : state)
        benchmark::DoNotOptimize(bind_arguments(c.manifest, c.launch, c.place, c.tensors, encode_host_map));
}

void repeated(benchmark::State& state, const std::string& name, bool new_input) {
    Case c(name);
    ArgumentBinder binder(c.manifest, c.place);
    for (auto _ : state) {
        if (new_input) c.tensors[0].data = static_cast<unsigned char*>(c.tensors[0].data) + 4096;
        benchmark::DoNotOptimize(binder.bind(c.launch, c.tensors, encode_host_map));
    }
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
    for (const char* name : {"ag_gemm", "matmul", "attention", "grouped_matmul"}) {
        const std::string text = name;
        benchmark::RegisterBenchmark((text + "/first").c_str(), [=](auto& state) { plait::first(state, text); });
        benchmark::RegisterBenchmark((text + "/repeated").c_str(),
                                     [=](auto& state) { plait::repeated(state, text, false); });
        benchmark::RegisterBenchmark((text + "/new_input").c_str(),
                                     [=](auto& state) { plait::repeated(state, text, true); });
    }
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
}
