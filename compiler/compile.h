// The one door of the compiler.
#pragma once
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"
#include "runtime/artifact/artifact.h"

namespace plait {

struct CompileStats {
    bool cache_hit = false;
    double lower_ms = 0, verify_ms = 0, emit_ms = 0, backend_ms = 0, total_ms = 0;
};
struct CompileOptions {
    std::string cache_dir;        // empty: the setting PLAIT_CACHE_DIR, else ~/.cache/plait
    bool use_cache = true;
    bool shared_object = false;   // host: link a .so (AOT) instead of a relocatable object (JIT)
};

// Throws ScheduleError (all findings), CompileError. Thread-safe; holds a per-key file lock while it builds.
Artifact compile(const Graph& graph, const Schedule& schedule, const Problem& problem, const Topology& topology,
                 const Target& target, const CompileOptions& options = {}, CompileStats* stats = nullptr);

// The stages after lowering, for tests: a Plan that was edited by hand compiles by the same path, unverified.
struct Plan;
Artifact compile_plan(const Plan& plan, const Problem& problem, const Target& target, const CompileOptions& options = {},
                      CompileStats* stats = nullptr);

}  // namespace plait
