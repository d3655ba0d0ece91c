// The list of rules. All run, so that all findings come at once; rules on a plan that does not resolve stop there.
#include "compiler/verify/verify.h"

#include "compiler/verify/rules.h"

namespace plait {
namespace {

void append(Diagnostics* all, Diagnostics more) { all->insert(all->end(), more.begin(), more.end()); }

}  // namespace

Diagnostics verify_request(const Graph& graph, const Schedule& schedule, const Problem& problem,
                           const Topology& topology, const Target& target) {
    const Request request{graph, schedule, problem, topology, target};
    Diagnostics all;
    for (auto rule :
         {check_graph, check_dtypes, check_shapes, check_roles, check_tiles, check_pieces, check_limits, check_attention, check_grouped, check_cluster})
        append(&all, rule(request));
    return all;
}

Diagnostics verify_plan(const Plan& plan, const Target& target) {
    Diagnostics all = check_names(plan);
    if (!all.empty()) return all;  // other rules look names up
    for (auto rule : {check_maps, check_agents, check_barriers, check_edges, check_reuse, check_cluster_plan})
        append(&all, rule(plan));
    for (auto rule : {check_memory, check_registers}) append(&all, rule(plan, target));
    if (all.empty()) append(&all, check_progress(plan, target));  // the slowest, and its findings would repeat theirs
    return all;
}

}  // namespace plait
