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
    std::string cache_mode;       // auto, strict, jit_only; empty: the setting PLAIT_CACHE_MODE
    std::string record_requests;  // file that the request is added to; empty: the setting PLAIT_RECORD_REQUESTS
    bool shared_object = false;   // host: link a .so (AOT) instead of a relocatable object (JIT)
};

// Throws ScheduleError (all findings), CompileError. Thread-safe.
//
// cache_mode auto: the cache's entry, else one that is built under a lock per key, so that one process of a machine builds
// it. strict: an entry of the cache that computes the request (manifest.semantics), whatever compiled it; none is a
// CompileError; nothing is lowered and no compiler is needed. jit_only: built anew; the cache is neither read nor written.
Artifact compile(const Graph& graph, const Schedule& schedule, const Problem& problem, const Topology& topology,
                 const Target& target, const CompileOptions& options = {}, CompileStats* stats = nullptr);

// The stages after lowering, for tests: a Plan that was edited by hand compiles by the same path, unverified.
struct Plan;
Artifact compile_plan(const Plan& plan, const Problem& problem, const Target& target, const CompileOptions& options = {},
                      CompileStats* stats = nullptr);

}  // namespace plait
