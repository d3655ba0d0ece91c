// The one lowering from Graph x Schedule x Problem x Topology x Target to a Plan.
#pragma once
#include "compiler/ir/graph.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"

namespace plait {

// Throws ScheduleError with all findings of the verifier (compiler/verify), before and after lowering.
Plan lower(const Graph& graph, const Schedule& schedule, const Problem& problem, const Topology& topology,
           const Target& target);

// lower() without verify_plan, for a caller that calls it later: compile() does where the artifact is not cached, since a
// cached one was proven when it was built.
Plan lower_unproven(const Graph& graph, const Schedule& schedule, const Problem& problem, const Topology& topology,
                    const Target& target);

}  // namespace plait
