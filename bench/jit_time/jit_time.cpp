// From a graph to loaded host code, to an sm_90a cubin, and both from the disk cache: what a first call costs.
// Goals on 2 cores: 500 ms, 2 s, 50 ms.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "compiler/compile.h"
#include "runtime/base/error.h"

#ifdef PLAIT_WITH_HOST_JIT
#include "compiler/backend/clang_jit.h"
#endif

namespace plait {
namespace {

struct Case {
    ScheduleFile file;
    Topology topology;
    Target target;

    explicit Case(const std::string& arch)
        : file(load_schedule_file(PLAIT_SOURCE_DIR "/schedules/ag_gemm.json")), topology(Topology::simulated("2x2")),
          target(Target::make(arch, topology)) {
        file.problem.m_max = 2048;
        file.problem.n = 1024;
        file.problem.k = 1024;
    }
    Case(const std::string& arch, const std::string& schedule)
        : file(load_schedule_file(PLAIT_SOURCE_DIR "/schedules/" + schedule + ".json")), topology(topology_of(file)),
          target(Target::make(arch, topology)) {}
    Artifact compile(const CompileOptions& options, CompileStats* stats) const {
        return plait::compile(file.graph, file.schedule, file.problem, topology, target, options, stats);
    }
};

void load(const Artifact& artifact) {
#ifdef PLAIT_WITH_HOST_JIT
    if (artifact.manifest.arch == "host") benchmark::DoNotOptimize(load_host_object(artifact.code));
#endif
    benchmark::DoNotOptimize(artifact);
}

void cold(benchmark::State& state, const Case& task) {
    CompileOptions options;
    options.cache_mode = "jit_only";
    for (auto _ : state) {
        CompileStats stats;
        try {
            load(task.compile(options, &stats));
        } catch (const CompileError& error) {   // this build or machine lacks the compiler: no time to report
            state.SkipWithError(error.message().c_str());
            return;
        }
        state.counters["lower_ms"] = stats.lower_ms;
        state.counters["backend_ms"] = stats.backend_ms;
    }
}

void warm(benchmark::State& state, const std::string& arch) {
    const Case task(arch);
    CompileOptions options;
    options.cache_dir = std::filesystem::temp_directory_path() / ("plait-jit-time-" + arch);
    try {
        task.compile(options, nullptr);
    } catch (const CompileError& error) {
        state.SkipWithError(error.message().c_str());
        return;
    }
    for (auto _ : state) {
        CompileStats stats;
        load(task.compile(options, &stats));
        if (!stats.cache_hit) state.SkipWithError("not a cache hit");
    }
    std::filesystem::remove_all(options.cache_dir);
}

BENCHMARK_CAPTURE(cold, host, Case("host"))->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(cold, sm_90a, Case("sm_90a"))->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(cold, matmul, Case("sm_90a", "matmul"))->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(cold, attention, Case("sm_90a", "attention"))->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(cold, attention_64, Case("sm_90a", "attention_64"))->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(cold, attention_256, Case("sm_90a", "attention_256"))->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(cold, grouped_matmul, Case("sm_90a", "grouped_matmul"))->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(cold, grouped_matmul_rows, Case("sm_90a", "grouped_matmul_rows"))->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(warm, host, std::string("host"))->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(warm, sm_90a, std::string("sm_90a"))->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace plait

BENCHMARK_MAIN();
