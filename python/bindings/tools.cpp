// What the command line asks: parts of this build, toolchains, settings, the cache, the knobs.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "compiler/backend/cache.h"
#include "compiler/ir/schedule.h"
#include "python/bindings/bindings.h"
#include "runtime/base/error.h"
#include "runtime/base/settings.h"

#ifdef PLAIT_WITH_HOST_JIT
#include "compiler/backend/clang_jit.h"
#endif
#ifdef PLAIT_WITH_CUDA
#include "compiler/backend/nvrtc_library.h"
#endif

namespace nb = nanobind;
using namespace nb::literals;

namespace plait::python {
namespace {

std::map<std::string, bool> built_parts() {
    std::map<std::string, bool> parts = {{"sim", false}, {"host_jit", false}, {"cuda", false}, {"verbs", false}, {"efa", false}};
#ifdef PLAIT_WITH_SIM
    parts["sim"] = true;
#endif
#ifdef PLAIT_WITH_HOST_JIT
    parts["host_jit"] = true;
#endif
#ifdef PLAIT_WITH_CUDA
    parts["cuda"] = true;
#endif
#ifdef PLAIT_WITH_VERBS
    parts["verbs"] = true;
#endif
#ifdef PLAIT_WITH_EFA
    parts["efa"] = true;
#endif
    return parts;
}

std::string host_compiler() {
#ifdef PLAIT_WITH_HOST_JIT
    return clang_version();
#else
    return "";
#endif
}

// Empty where no NVRTC is found: that is an answer here, not an error.
std::string device_compiler() {
#ifdef PLAIT_WITH_CUDA
    try {
        const NvrtcLibrary library = open_nvrtc();
        return library.version + " (" + library.path + ")";
    } catch (const CompileError&) {
        return "";
    }
#else
    return "";
#endif
}

ArtifactCache open_cache(const std::string& folder) {
    return ArtifactCache(folder.empty() ? Settings::from_environment().cache_dir : folder);
}

nb::dict cache_statistics(const std::string& folder) {
    const CacheStatistics statistics = open_cache(folder).statistics();
    nb::dict result;
    result["folder"] = folder.empty() ? Settings::from_environment().cache_dir : folder;
    result["entries"] = statistics.entries;
    result["bytes"] = statistics.bytes;
    result["hits"] = statistics.hits;
    result["misses"] = statistics.misses;
    result["healed"] = statistics.healed;
    return result;
}

std::uint64_t cache_clear(const std::string& folder) {
    ArtifactCache cache = open_cache(folder);
    const std::uint64_t entries = cache.statistics().entries;
    cache.clear();
    return entries;
}

nb::list knobs() {
    nb::list result;
    for (const KnobSpec& spec : knob_specs()) {
        nb::dict knob;
        knob["name"] = spec.name;
        knob["default"] = spec.default_value;
        knob["words"] = spec.words;
        knob["low"] = spec.low;
        knob["high"] = spec.high;
        knob["step"] = spec.step;
        knob["doc"] = spec.doc;
        result.append(knob);
    }
    return result;
}

}  // namespace

void bind_tools(nb::module_& module) {
    module.def("built_parts", &built_parts);
    module.def("clang_version", &host_compiler);
    module.def("nvrtc_version", &device_compiler);
    module.def("cache_statistics", &cache_statistics, "folder"_a = "");
    module.def("cache_clear", &cache_clear, "folder"_a = "");
    module.def("knobs", &knobs);
    module.def("settings_text", [] { return Settings::from_environment().print(); });
    module.def("launcher", [] {
        const LauncherEnvironment launcher = LauncherEnvironment::from_environment();
        nb::dict result;
        result["launcher"] = launcher.launcher;
        result["rank"] = launcher.rank;
        result["world"] = launcher.world;
        result["local_rank"] = launcher.local_rank;
        result["local_world"] = launcher.local_world;
        return result;
    });
}

}  // namespace plait::python
