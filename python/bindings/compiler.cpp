// Schedule files, lowering and compile(). A Request is Graph x Schedule x Problem x Topology x Target, made of JSON text.
#include "compiler/compile.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "compiler/choose/choose_schedule.h"
#include "compiler/codegen/emit.h"
#include "compiler/ir/text.h"
#include "compiler/passes/lower.h"
#include "python/bindings/bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace plait::python {
namespace {

struct Request {
    ScheduleFile file;
    Topology topology;
    Target target;

    Plan lower() const { return plait::lower(file.graph, file.schedule, file.problem, topology, target); }
};

// m, n, k of 0 keep what the file says; knobs and limits go over the file's.
Request make_request(const std::string& schedule_json, const std::string& origin, const Topology& topology,
                     const std::string& target, const std::map<std::string, std::string>& knobs, std::int64_t m,
                     std::int64_t n, std::int64_t k, const std::map<std::string, std::int64_t>& limits) {
    Request request{read_schedule_json(schedule_json, origin), topology, Target::make(target, topology)};
    for (const auto& [knob, value] : knobs) request.file.schedule.set(knob, value);
    if (m > 0) request.file.problem.m_max = m;
    if (n > 0) request.file.problem.n = n;
    if (k > 0) request.file.problem.k = k;
    for (const auto& [name, limit] : limits) request.file.problem.limits[name] = limit;
    return request;
}

// Fills in the knobs that nobody set, for launches of `m` rows (0: the maximum). Why, and the tile's knobs.
nb::tuple choose(Request& request, std::int64_t m) {
    const Chosen chosen = choose_schedule(request.file.graph, request.file.schedule, request.file.problem, request.topology,
                                          request.target, m);
    request.file.schedule = chosen.schedule;
    nb::dict tile;
    for (const char* knob : {"tile_m", "tile_n", "tile_k", "stages", "consumer_warpgroups", "cluster", "raster_group"})
        tile[knob] = chosen.schedule.integer(knob);
    tile["cluster_along"] = chosen.schedule.word("cluster_along");
    return nb::make_tuple(chosen.reason, tile);
}

nb::dict role_summary(const Plan& plan, const RoleDef& role) {
    nb::list programs;
    for (const ProgramDef& program : plan.programs) {
        if (program.role != role.name) continue;
        nb::dict entry;
        entry["name"] = program.name;
        entry["first_cta"] = program.first_cta.print();
        entry["last_cta"] = program.last_cta.print();
        programs.append(entry);
    }
    nb::dict result;
    result["name"] = role.name;
    result["placement"] = role.placement;
    result["sms"] = role.sms;
    result["programs"] = programs;
    return result;
}

nb::dict summarize(const Plan& plan) {
    nb::dict result;
    result["name"] = plan.name;
    result["target"] = plan.target;
    result["world"] = plan.world;
    result["nodes"] = plan.nodes;
    result["locals"] = plan.locals;
    result["m_max"] = plan.m_max;
    result["threads"] = plan.threads;
    nb::dict consts;
    for (const Constant& constant : plan.consts) consts[constant.name.c_str()] = constant.value;
    result["consts"] = consts;
    nb::list buffers, flags, edges, roles, agents;
    for (const BufferDef& buffer : plan.buffers) buffers.append(nb::make_tuple(buffer.name, buffer.dtype, buffer.shape));
    for (const FlagDef& flag : plan.flags) flags.append(nb::make_tuple(flag.name, flag.count));
    for (const EdgeDef& edge : plan.edges) {
        const auto text = [](std::string_view word) { return std::string(word); };
        edges.append(nb::make_tuple(edge.name, text(word_of(edge.producer)), text(word_of(edge.signal)),
                                    text(word_of(edge.scope)), text(word_of(edge.consumer)), edge.memory));
    }
    for (const RoleDef& role : plan.roles) roles.append(role_summary(plan, role));
    for (const AgentDef& agent : plan.agents) agents.append(nb::make_tuple(agent.name, agent.programs));
    std::int64_t shared = 0;
    for (const SharedDef& def : plan.shared) shared += def.bytes * def.count;
    result["shared_bytes"] = shared;
    result["buffers"] = buffers;
    result["flags"] = flags;
    result["edges"] = edges;
    result["roles"] = roles;
    result["agents"] = agents;
    return result;
}

nb::tuple compile_request(const Request& request, const std::string& cache_dir, const std::string& cache_mode,
                          const std::string& record_requests) {
    CompileOptions options;
    options.cache_dir = cache_dir;
    options.cache_mode = cache_mode;
    options.record_requests = record_requests;
    CompileStats stats;
    Artifact artifact;
    {
        nb::gil_scoped_release release;
        artifact = compile(request.file.graph, request.file.schedule, request.file.problem, request.topology,
                           request.target, options, &stats);
    }
    nb::dict times;
    times["cache_hit"] = stats.cache_hit;
    times["lower_ms"] = stats.lower_ms;
    times["verify_ms"] = stats.verify_ms;
    times["emit_ms"] = stats.emit_ms;
    times["backend_ms"] = stats.backend_ms;
    times["total_ms"] = stats.total_ms;
    return nb::make_tuple(std::move(artifact), times);
}

void bind_topology(nb::module_& module) {
    nb::class_<Topology>(module, "Topology")
        .def_static("simulated", &Topology::simulated, "label"_a)
        .def_static("from_file", &Topology::from_file, "path"_a)
        .def_static("from_json", &Topology::from_json_text, "text"_a, "origin"_a)
        .def("to_json", &Topology::to_json_text)
        .def("label", &Topology::label)
        .def_prop_ro("world", &Topology::world)
        .def_rw("name", &Topology::name)
        .def_rw("sms", &Topology::sms)
        .def_ro("nodes", &Topology::nodes)
        .def_ro("gpus_per_node", &Topology::gpus_per_node)
        .def_ro("arch", &Topology::arch);
}

void bind_artifact(nb::module_& module) {
    nb::class_<Artifact>(module, "Artifact")
        .def_prop_ro("manifest", [](const Artifact& artifact) { return artifact.manifest.to_json_text(); })
        .def_prop_ro("source", [](const Artifact& artifact) { return artifact.source; })
        .def_prop_ro("code", [](const Artifact& a) { return nb::bytes(a.code.data(), a.code.size()); })
        .def_prop_ro("code_file", [](const Artifact& artifact) { return artifact.code_file; })
        .def_prop_ro("key", [](const Artifact& artifact) { return artifact.manifest.key; })
        .def_prop_ro("name", [](const Artifact& artifact) { return artifact.manifest.name; })
        .def_prop_ro("m_max", [](const Artifact& artifact) { return artifact.manifest.m_max; })
        .def_prop_ro("agents", [](const Artifact& artifact) { return artifact.manifest.agents; })
        .def_prop_ro("world", [](const Artifact& artifact) { return artifact.manifest.world; })
        .def_prop_ro("tensors", [](const Artifact& artifact) {
            nb::list result;
            for (const ManifestTensor& t : artifact.manifest.tensors) result.append(nb::make_tuple(t.name, t.dtype, t.output));
            return result;
        });
    module.def("load_artifact", &load_artifact, "directory"_a);
}

}  // namespace

void bind_compiler(nb::module_& module) {
    bind_topology(module);
    bind_artifact(module);
    nb::class_<Request>(module, "Request")
        .def(nb::new_(&make_request), "schedule_json"_a, "origin"_a, "topology"_a, "target"_a,
             "knobs"_a = std::map<std::string, std::string>(), "m"_a = 0, "n"_a = 0, "k"_a = 0,
             "limits"_a = std::map<std::string, std::int64_t>())
        .def_prop_ro("problem", [](const Request& request) {
            return nb::make_tuple(request.file.problem.m_max, request.file.problem.n, request.file.problem.k);
        })
        .def_prop_ro("limits", [](const Request& request) { return request.file.problem.limits; })
        .def_ro("topology", &Request::topology)
        .def_prop_ro("json", [](const Request& request) { return write_schedule_json(request.file); })
        .def("schedule_text", [](const Request& request) { return print_schedule(request.file); })
        .def("plan_text", [](const Request& request, bool comments) { return print_plan(request.lower(), comments); }, "comments"_a = true)
        .def("summary", [](const Request& request) { return summarize(request.lower()); })
        .def("source", [](const Request& request) {
            const Source source = emit(request.lower());
            return nb::make_tuple(source.kernel, source.shapes);
        })
        .def("choose", &choose, "m"_a = 0)
        .def("compile", &compile_request, "cache_dir"_a = "", "cache_mode"_a = "", "record_requests"_a = "");
    module.def("load_schedule_json", [](const std::string& path) { return write_schedule_json(load_schedule_file(path)); }, "path"_a);
}

}  // namespace plait::python
