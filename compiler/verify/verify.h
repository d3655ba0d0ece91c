// Every rule that can reject a compilation. One rule per file (check_*.cpp); each returns all its findings.
#pragma once
#include "compiler/ir/diagnostic.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"

namespace plait {

Diagnostics verify_request(const Graph& graph, const Schedule& schedule, const Problem& problem,
                           const Topology& topology, const Target& target);
Diagnostics verify_plan(const Plan& plan, const Target& target);

}  // namespace plait
