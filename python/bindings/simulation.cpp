// SimCluster and the host code it runs.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "python/bindings/bindings.h"
#include "runtime/base/error.h"
#include "runtime/session/bind.h"
#include "runtime/trace/trace_kind.h"

#ifdef PLAIT_WITH_HOST_JIT
#include "compiler/backend/clang_jit.h"
#endif

namespace nb = nanobind;
using namespace nb::literals;

namespace plait::python {

HostModule load_host_code(const Artifact& artifact) {
#ifdef PLAIT_WITH_HOST_JIT
    if (artifact.code_file.empty() || !artifact.code_file.ends_with(".so")) return load_host_object(artifact.code);
#endif
    if (artifact.code_file.ends_with(".so")) return open_shared_object(artifact.code_file);
    throw CompileError("this build has no JIT for the host machine", "build with Clang/LLVM 19, or load a directory with kernel.so");
}

namespace {

std::vector<std::vector<std::int64_t>> shapes_of_rank(const Artifact& artifact, int rank, std::int64_t m, const Params& params) {
    const Manifest& manifest = artifact.manifest;
    const RankPlace place = place_of(rank, static_cast<int>(manifest.nodes), static_cast<int>(manifest.locals));
    return tensor_shapes(manifest, place, m, params);
}

#ifdef PLAIT_WITH_SIM
SimOptions make_options(std::uint64_t seed, const std::string& network, bool check_memory, bool trace, std::uint32_t resident_ctas,
                        std::uint64_t fifo_slots, std::uint64_t send_queue_depth, std::uint64_t max_steps) {
    SimOptions options;
    options.seed = seed;
    if (network != "ordered" && network != "unordered")
        throw ArgumentError("network is '" + network + "'", "use ordered or unordered");
    options.network = network == "ordered" ? NetworkContract::Ordered : NetworkContract::Unordered;
    options.check_memory = check_memory;
    options.trace = trace;
    options.resident_ctas = resident_ctas;
    options.fifo_slots = fifo_slots;
    options.send_queue_depth = send_queue_depth;
    options.max_steps = max_steps;
    return options;
}

nb::dict report_to_dict(const LaunchReport& report) {
    nb::list events, links;
    for (const TraceEvent& e : report.events)
        events.append(nb::make_tuple(e.rank, e.cta, e.agent, trace_kind_name(static_cast<TraceKind>(e.kind)), e.value, e.step));
    for (const LinkTraffic& link : report.links)
        links.append(nb::make_tuple(link.from, link.to, link.network, link.bytes, link.transfers));
    nb::dict result;
    result["steps"] = report.steps;
    result["events"] = events;
    result["links"] = links;
    return result;
}

nb::dict launch(SimCluster& cluster, const Artifact& artifact, const HostModule& module, std::int64_t m,
                const std::vector<std::vector<TensorTuple>>& tensors) {
    LaunchReport report;
    {
        nb::gil_scoped_release release;
        std::vector<RankTensors> ranks;
        for (const auto& rank : tensors) ranks.push_back(to_rank_tensors(rank));
        report = cluster.launch(artifact, module, m, ranks);
    }
    return report_to_dict(report);
}

void bind_cluster(nb::module_& module) {
    nb::class_<SimCluster>(module, "SimCluster")
        .def("__init__",
             [](SimCluster* self, const Topology& topology, std::uint64_t seed, const std::string& network, bool check_memory,
                bool trace, std::uint32_t resident_ctas, std::uint64_t fifo_slots, std::uint64_t send_queue_depth,
                std::uint64_t max_steps) {
                 new (self) SimCluster(topology, make_options(seed, network, check_memory, trace, resident_ctas, fifo_slots,
                                                              send_queue_depth, max_steps));
             },
             "topology"_a, "seed"_a = 1, "network"_a = "ordered", "check_memory"_a = true, "trace"_a = false,
             "resident_ctas"_a = 0, "fifo_slots"_a = 64, "send_queue_depth"_a = 8, "max_steps"_a = 0)
        .def("launch", &launch, "artifact"_a, "module"_a, "m"_a, "tensors"_a)
        .def_prop_ro("launches", &SimCluster::launches);
}
#else
void bind_cluster(nb::module_&) {}
#endif

}  // namespace

void bind_simulation(nb::module_& module) {
    nb::class_<HostModule>(module, "HostModule");
    module.def("load_host_code", &load_host_code, "artifact"_a, nb::call_guard<nb::gil_scoped_release>());
    module.def("tensor_shapes", &shapes_of_rank, "artifact"_a, "rank"_a, "m"_a, "params"_a = Params{});
    bind_cluster(module);
}

}  // namespace plait::python
