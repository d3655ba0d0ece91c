#include "compiler/compile.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "compiler/backend/cache.h"
#include "compiler/backend/make_manifest.h"
#include "compiler/backend/toolchain.h"
#include "compiler/codegen/emit.h"
#include "compiler/ir/request.h"
#include "compiler/ir/text.h"
#include "compiler/passes/lower.h"
#include "compiler/verify/verify.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/base/hash.h"
#include "runtime/base/settings.h"
#include "templates/abi/kernel_args.h"

namespace plait {
namespace {

// Of the text that is hashed into the key. Raised when the verifier or the limits on spills become stricter, too: what is
// cached is not proven again.
constexpr int kKeyFormat = 2;

class Stopwatch {
public:
    double lap_ms() {
        auto now = std::chrono::steady_clock::now();
        double ms = std::chrono::duration<double, std::milli>(now - last_).count();
        last_ = now;
        return ms;
    }

private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// What a compilation is for people: texts that PLAIT_DUMP keeps beside the artifact.
struct Provenance {
    std::string semantics, schedule_text;
};

// Canonical JSON: keys sorted, no provenance comments, no paths, nothing of this process.
std::string cache_key(const Source& source, const Toolchain& toolchain, const Manifest& manifest) {
    nlohmann::json key = {
        {"abi", kAbiVersion},
        {"format", kKeyFormat},
        {"arch", manifest.arch},
        {"source", source.key_text},
        {"flags", toolchain.flags},
        {"templates", toolchain.templates_hash},
        {"toolchain", toolchain.version},
        {"code", code_file_name(toolchain.kind)},
        {"manifest", manifest.to_json_text()},
    };
    return sha256_hex(key.dump());
}

std::string mode_of(const CompileOptions& options, const Settings& settings) {
    const std::string& mode = options.cache_mode.empty() ? settings.cache_mode : options.cache_mode;
    if (mode != "auto" && mode != "strict" && mode != "jit_only")
        throw ArgumentError(fmt::format("cache mode is `{}`", mode), "use auto, strict or jit_only");
    return mode;
}

std::string cache_folder(const CompileOptions& options, const Settings& settings) {
    return options.cache_dir.empty() ? settings.cache_dir : options.cache_dir;
}

ExtraFiles dumped_texts(const Plan& plan, const Source& source, const Provenance& provenance,
                        const Settings& settings) {
    if (settings.dump.empty()) return {};
    ExtraFiles extra{{"plan.txt", print_plan(plan)}, {"kernel_shapes.h", source.shapes}};
    if (!provenance.schedule_text.empty()) extra["schedule.txt"] = provenance.schedule_text;
    return extra;
}

BuiltEntry build_entry(const Toolchain& toolchain, const Plan& plan, const Source& source, const Manifest& manifest, ExtraFiles extra) {
    BuiltCode built = build_code(toolchain, plan, source);
    BuiltEntry entry;
    entry.artifact.manifest = manifest;
    entry.artifact.manifest.compiler = built.compiler;
    entry.artifact.manifest.registers = built.report.registers;
    entry.artifact.manifest.spill_bytes = built.report.spill_bytes;
    entry.artifact.manifest.local_bytes = built.report.local_bytes;
    entry.artifact.manifest.ptxas_messages = built.report.messages;
    entry.artifact.source = source.kernel;
    entry.artifact.code = std::move(built.code);
    entry.code_name = code_file_name(toolchain.kind);
    if (!extra.empty() && !built.ptx.empty()) extra["kernel.ptx"] = built.ptx;
    entry.extra = std::move(extra);
    return entry;
}

Artifact build(const Plan& plan, const Problem& problem, const Target& target, const Provenance& provenance,
               const std::function<void()>& prove, const CompileOptions& options, CompileStats& stats) {
    if (plan.target != target.arch)
        throw ArgumentError("plan " + plan.name + " is for " + plan.target + ", the target is " + target.arch);
    Settings settings = Settings::from_environment();
    const std::string mode = mode_of(options, settings);
    if (mode == "strict")
        throw CompileError(fmt::format("strict cache: plan {} was edited by hand, nothing built it before", plan.name),
                           "compile it with cache mode auto or jit_only");
    Stopwatch watch;
    Source source = emit(plan);
    Manifest manifest = make_manifest(plan, problem, provenance.semantics);
    stats.emit_ms = watch.lap_ms();
    Toolchain toolchain = find_toolchain(target, options.shared_object);
    manifest.key = cache_key(source, toolchain, manifest);
    ExtraFiles extra = dumped_texts(plan, source, provenance, settings);
    auto make = [&] {
        prove();
        return build_entry(toolchain, plan, source, manifest, extra);
    };
    Artifact artifact;
    if (mode == "auto") {
        ArtifactCache cache(cache_folder(options, settings));
        artifact = cache.find_or_build(manifest.key, make, &stats.cache_hit);
        if (stats.cache_hit) cache.add_extra(manifest.key, extra);
    } else {
        artifact = make().artifact;
    }
    stats.backend_ms = watch.lap_ms();
    return artifact;
}

// Production: what plaitc built, or an error that says how to build it. Never lowers, never writes to the cache.
Artifact find_strictly(const CompileRequest& request, const CompileOptions& options, const Settings& settings) {
    const std::string folder = cache_folder(options, settings), semantics = semantics_of(request);
    // A shared object loads without Clang; an object file is taken where nothing else is there.
    std::vector<std::string> names = {"kernel.cubin"};
    if (request.target.is_host()) names = {"kernel.so", "kernel.o"};
    if (request.target.is_host() && options.shared_object) names = {"kernel.so"};
    int damaged = 0;
    if (auto found = ArtifactCache(folder).find_by_semantics(semantics, names, &damaged)) return *found;
    const std::string damage = damaged > 0 ? fmt::format(" ({} damaged)", damaged) : "";
    throw CompileError(
        fmt::format(
            "strict cache: {} holds no artifact{} of graph {} with M <= {}, N = {}, K = {} for {} on {} (semantics {})",
            folder, damage, request.graph.name, request.problem.m_max, request.problem.n, request.problem.k,
            request.topology.label(), request.target.arch, semantics.substr(0, 16)),
        "record the run's requests (PLAIT_RECORD_REQUESTS=FILE), build them with plaitc --from-requests FILE "
        "--cache-dir " +
            folder + ", or set PLAIT_CACHE_MODE=auto");
}

}  // namespace

Artifact compile(const Graph& graph, const Schedule& schedule, const Problem& problem, const Topology& topology,
                 const Target& target, const CompileOptions& options, CompileStats* stats) {
    CompileStats local;
    CompileStats& s = stats ? *stats : local;
    s = {};
    Stopwatch total, watch;
    const CompileRequest request{graph, schedule, problem, topology, target};
    const Settings settings = Settings::from_environment();
    const std::string record = options.record_requests.empty() ? settings.record_requests : options.record_requests;
    if (!record.empty()) add_line_once(record, print_request(request));
    if (mode_of(options, settings) == "strict") {
        Artifact artifact = find_strictly(request, options, settings);
        s.cache_hit = true;
        s.total_ms = s.backend_ms = total.lap_ms();
        return artifact;
    }
    Plan plan = lower_unproven(graph, schedule, problem, topology, target);
    s.lower_ms = watch.lap_ms();
    Provenance provenance{semantics_of(request), print_schedule({graph, schedule, problem, topology.name, ""})};
    auto prove = [&] {
        Stopwatch proof;
        throw_if_any(verify_plan(plan, target));
        s.verify_ms = proof.lap_ms();
    };
    Artifact artifact = build(plan, problem, target, provenance, prove, options, s);
    s.backend_ms -= s.verify_ms;
    s.total_ms = total.lap_ms();
    return artifact;
}

Artifact compile_plan(const Plan& plan, const Problem& problem, const Target& target, const CompileOptions& options,
                      CompileStats* stats) {
    CompileStats local;
    CompileStats& s = stats ? *stats : local;
    s = {};
    Stopwatch total;
    Artifact artifact = build(
        plan, problem, target, {sha256_hex(print_plan(plan, false)), ""}, [] {}, options, s);
    s.total_ms = total.lap_ms();
    return artifact;
}

}  // namespace plait
