// plaitc: a schedule file to a folder that the runtime loads. Needs no GPU, no Python, no environment.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <optional>

#include "compiler/choose/choose_schedule.h"
#include "compiler/codegen/emit.h"
#include "compiler/compile.h"
#include "compiler/ir/request.h"
#include "compiler/ir/text.h"
#include "compiler/passes/lower.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"

namespace plait {
namespace {

struct Request {
    std::string schedule_path, requests_path, shape, topology, target = "sm_90a", output, print, cache_dir;
    std::vector<std::string> knobs;
    bool no_cache = false;

    // plaitc's job is to build: the setting PLAIT_CACHE_MODE is for those who run what it built.
    CompileOptions options(const Target& made_for) const {
        CompileOptions result;
        result.cache_dir = cache_dir;
        result.cache_mode = no_cache ? "jit_only" : "auto";
        result.shared_object = made_for.is_host();
        return result;
    }
};

// `name=value`, split at the first =.
std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& option) {
    std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
        throw ArgumentError(fmt::format("{}: `{}` is not name=value", option, text));
    return {text.substr(0, equals), text.substr(equals + 1)};
}

std::int64_t positive_integer(const std::string& text, const std::string& what) {
    std::size_t used = 0;
    std::int64_t value = 0;
    try {
        value = std::stoll(text, &used);
    } catch (const std::exception&) {
        used = 0;
    }
    if (used == 0 || used != text.size() || value <= 0)
        throw ArgumentError(fmt::format("{}: `{}` is not a positive integer", what, text));
    return value;
}

// M=8192,N=4096,K=8192, and the launch arguments that the file limits: each given size replaces the file's.
void apply_shape(const std::string& shape, Problem& problem) {
    std::size_t start = 0;
    while (start < shape.size()) {
        std::size_t comma = std::min(shape.find(',', start), shape.size());
        auto [name, value] = split_assignment(shape.substr(start, comma - start), "--shape");
        std::int64_t size = positive_integer(value, "--shape " + name);
        if (name == "M")
            problem.m_max = size;
        else if (name == "N")
            problem.n = size;
        else if (name == "K")
            problem.k = size;
        else if (const auto limit = problem.limits.find(name); limit != problem.limits.end())
            limit->second = size;
        else
            throw ArgumentError(fmt::format("--shape: there is no size {}", name),
                                "write M=..,N=..,K=..: M rows in all (the maximum), N columns per rank, K; or a limit of the file's problem");
        start = comma + 1;
    }
}

Topology choose_topology(const Request& request, const ScheduleFile& file) {
    if (request.topology.empty()) return topology_of(file);
    return file_exists(request.topology) ? Topology::from_file(request.topology)
                                         : Topology::simulated(request.topology);
}

std::string summarize(const Artifact& artifact, const Plan& plan, const CompileStats& stats, const std::string& choice) {
    const Manifest& m = artifact.manifest;
    std::string text = fmt::format("{}: M <= {}, N = {}, K = {}, world {} = {} x {}, {}, {}\n", m.name, m.m_max, m.n,
                                   m.k, m.world, m.nodes, m.locals, m.arch, m.compiler);
    text += fmt::format("  choice: {}\n", choice);
    for (const RoleDef& role : plan.roles) {
        if (role.placement != "none")
            text += fmt::format("  role {}: {}{}\n", role.name, role.placement,
                                role.sms > 0 ? fmt::format(", {} CTAs", role.sms) : "");
    }
    text += fmt::format("  {} threads, {} bytes shared, {} bytes arguments, {} bytes workspace, {} CTAs or more\n",
                        m.threads, m.shared_bytes, m.args_bytes, m.workspace_bytes, m.min_ctas);
    if (m.arch != "host")
        text += fmt::format("  {} registers, {} bytes spilled, {} bytes local\n", m.registers, m.spill_bytes,
                            m.local_bytes);
    for (const std::string& message : m.ptxas_messages) text += "  " + message + "\n";
    text += fmt::format("  code {} bytes, key {}\n", artifact.code.size(), m.key);
    text += fmt::format("  lower {:.1f} ms, verify {:.1f} ms, emit {:.1f} ms, {} {:.1f} ms\n", stats.lower_ms,
                        stats.verify_ms, stats.emit_ms, stats.cache_hit ? "cache" : "compile", stats.backend_ms);
    return text;
}

// The manifest comes last: a folder without one is no artifact. Code of another target would contradict it.
void write_artifact(const Artifact& artifact, const std::string& folder) {
    const std::string code = artifact.manifest.arch == "host" ? "kernel.so" : "kernel.cubin";
    make_directories(folder);
    remove_recursively(folder + "/manifest.json");
    for (const char* other : {"kernel.cubin", "kernel.o", "kernel.so"}) {
        if (other != code) remove_recursively(folder + "/" + other);
    }
    write_file_atomically(folder + "/kernel.cu", artifact.source);
    write_file_atomically(folder + "/" + code, artifact.code);
    write_file_atomically(folder + "/manifest.json", artifact.manifest.to_json_text());
}

void execute(const Request& request) {
    if (request.output.empty() && request.print.empty())
        throw ArgumentError("nothing to do", "give -o DIR, --print, or both");
    ScheduleFile file = load_schedule_file(request.schedule_path);
    apply_shape(request.shape, file.problem);
    for (const std::string& knob : request.knobs) {
        auto [name, value] = split_assignment(knob, "--set");
        file.schedule.set(name, value);
    }
    Topology topology = choose_topology(request, file);
    Target target = Target::make(request.target, topology);
    if (request.print == "schedule") fmt::print("{}", print_schedule(file));
    bool artifact_needed = !request.output.empty() || request.print == "summary";
    if (request.print == "schedule" && !artifact_needed) return;
    const std::string choice = choose_schedule(file.graph, file.schedule, file.problem, topology, target).reason;
    if (request.print == "choice") {
        fmt::print("{}\n", choice);
        if (!artifact_needed) return;
    }
    // compile() proves the plan where it has to.
    const auto make_plan = artifact_needed ? lower_unproven : lower;
    Plan plan = make_plan(file.graph, file.schedule, file.problem, topology, target);
    if (request.print == "plan") fmt::print("{}", print_plan(plan));
    if (request.print == "source") fmt::print("{}", emit(plan).kernel);
    if (!artifact_needed) return;
    CompileStats stats;
    Artifact artifact =
        compile(file.graph, file.schedule, file.problem, topology, target, request.options(target), &stats);
    if (!request.output.empty()) write_artifact(artifact, request.output);
    if (request.print == "summary") fmt::print("{}", summarize(artifact, plan, stats, choice));
}

// Builds every recorded request into the cache, for whatever target each was recorded. One that fails does not keep the
// others from being built; the number of failures.
int execute_recorded(const Request& request) {
    if (!request.shape.empty() || !request.topology.empty() || !request.knobs.empty() || !request.print.empty() ||
        request.no_cache)
        throw ArgumentError("--from-requests takes what was recorded",
                            "leave --shape, --topology, --set, --print and --no-cache out");
    const std::vector<CompileRequest> recorded = load_requests(request.requests_path);
    int built = 0, found = 0, failed = 0;
    for (const CompileRequest& r : recorded) {
        const std::string what = fmt::format("{}: M <= {}, N = {}, K = {}, {}, {}", r.graph.name, r.problem.m_max,
                                             r.problem.n, r.problem.k, r.topology.label(), r.target.arch);
        try {
            CompileStats stats;
            const Artifact artifact =
                compile(r.graph, r.schedule, r.problem, r.topology, r.target, request.options(r.target), &stats);
            ++(stats.cache_hit ? found : built);
            fmt::print("{}: {} in {:.0f} ms, semantics {}\n", what, stats.cache_hit ? "found" : "built", stats.total_ms,
                       artifact.manifest.semantics.substr(0, 16));
            if (!request.output.empty())
                write_artifact(artifact, fmt::format("{}/{}-{}", request.output, r.graph.name,
                                                     artifact.manifest.semantics.substr(0, 16)));
        } catch (const Error& error) {
            ++failed;
            fmt::print(stderr, "plaitc: {}: {}: {}\n", what, error.kind(), error.what());
        }
    }
    fmt::print("{} requests: {} built, {} found, {} failed\n", recorded.size(), built, found, failed);
    return failed;
}

}  // namespace
}  // namespace plait

// 0: done; 1: the request is refused or its compilation failed, why is on standard error; other: the command line.
int main(int argc, char** argv) {
    CLI::App app{"plaitc: compiles a schedule file to one kernel, its source and its manifest"};
    plait::Request request;
    app.add_option("schedule", request.schedule_path, "schedule file (JSON)");
    app.add_option("--from-requests", request.requests_path,
                   "instead of a schedule: file of requests that a run recorded (PLAIT_RECORD_REQUESTS); builds each "
                   "into the cache");
    app.add_option("--shape", request.shape,
                   "M=..,N=..,K=..: M rows in all (the maximum), N columns per rank, K; default: the file's");
    app.add_option("--topology", request.topology,
                   "topology file (JSON) or NODESxGPUS (simulated); default: the file's");
    app.add_option("--target", request.target, "sm_90a or host")->capture_default_str();
    app.add_option("-o,--output", request.output,
                   "folder for kernel.cu, kernel.cubin (host: kernel.so), manifest.json");
    app.add_option("--print", request.print, "what to print")
        ->check(CLI::IsMember({"choice", "plan", "schedule", "source", "summary"}));
    app.add_option("--set", request.knobs, "knob=value: overrides one knob of the schedule; may be repeated");
    app.add_option("--cache-dir", request.cache_dir, "cache folder; default: PLAIT_CACHE_DIR");
    app.add_flag("--no-cache", request.no_cache, "compiles anew and stores nothing");
    CLI11_PARSE(app, argc, argv);
    try {
        if (request.schedule_path.empty() == request.requests_path.empty())
            throw plait::ArgumentError("nothing to compile, or two things",
                                       "give a schedule file or --from-requests FILE");
        if (!request.requests_path.empty()) return plait::execute_recorded(request) == 0 ? 0 : 1;
        plait::execute(request);
        return 0;
    } catch (const plait::Error& error) {
        fmt::print(stderr, "plaitc: {}: {}\n", error.kind(), error.what());
    } catch (const std::exception& error) {
        fmt::print(stderr, "plaitc: {}\n", error.what());
    }
    return 1;
}
