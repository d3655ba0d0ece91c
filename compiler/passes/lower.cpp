// The table of contents of the lowering: what happens to a graph, and in which order.
#include "compiler/passes/lower.h"

#include "compiler/choose/choose_schedule.h"
#include "compiler/ir/pattern.h"
#include "compiler/passes/attention/choices.h"
#include "compiler/passes/attention/declare.h"
#include "compiler/passes/attention/lower.h"
#include "compiler/passes/choices.h"
#include "compiler/passes/declare_edges.h"
#include "compiler/passes/declare_sizes.h"
#include "compiler/passes/declare_tensors.h"
#include "compiler/passes/grouped/lower_grouped.h"
#include "compiler/passes/lower_compute.h"
#include "compiler/passes/lower_inter_send.h"
#include "compiler/passes/lower_intra_comm.h"
#include "compiler/passes/lower_protocol.h"
#include "compiler/passes/place_roles.h"
#include "compiler/passes/plan_memory.h"
#include "compiler/verify/verify.h"

namespace plait {
namespace {

// [all_gather ->] matmul [-> pointwise ...]
Plan lower_pattern(const FusedPattern& pattern, const Graph& graph, const Schedule& schedule, const Problem& problem,
                   const Topology& topology, const Target& target) {
    const Choices choices = resolve_choices(graph, pattern, schedule, problem, topology, target);
    Plan plan;
    declare_sizes(graph, target, choices, &plan);  // names that all expressions use
    declare_tensors(graph, choices, &plan);        // the caller's memory, as TMA sees it
    plan_memory(choices, &plan);                   // workspace, flags, shared memory
    declare_edges(choices, &plan);                 // hand-overs, typed: programs may signal and wait only by these
    place_roles(choices, &plan);                   // agents and CTA ranges, bodies empty
    lower_inter_send(choices, &plan);              // own shard to the other nodes
    lower_intra_comm(choices, &plan);              // own and arrived shards to the other ranks of the node
    lower_protocol(choices, &plan);                // entry signals, host lines
    lower_compute(choices, &plan);                 // tiles
    return plan;
}

// attention, on each rank's own tensors
Plan lower_pattern(const AttentionPattern& pattern, const Graph& graph, const Schedule& schedule, const Problem& problem,
                   const Topology& topology, const Target& target) {
    const attention::Choices choices = attention::resolve_choices(pattern, schedule, problem, topology);
    Plan plan;
    attention::declare_sizes(graph, target, choices, &plan);
    attention::declare_tensors(graph, choices, &plan);
    attention::declare_memory(choices, &plan);  // shared memory and the hand-overs in it
    attention::declare_agents(choices, &plan);
    attention::lower_loader(choices, &plan);  // tiles, queries, keys, values
    attention::lower_consumers(choices, &plan);
    return plan;
}

// grouped_matmul [-> pointwise ...], on each rank's own tensors
Plan lower_pattern(const GroupedPattern& pattern, const Graph& graph, const Schedule& schedule, const Problem& problem,
                   const Topology& topology, const Target& target) {
    return grouped::lower(graph, pattern, schedule, problem, topology, target);
}

}  // namespace

Plan lower_unproven(const Graph& graph, const Schedule& given, const Problem& problem, const Topology& topology,
                    const Target& target) {
    const Schedule schedule = choose_schedule(graph, given, problem, topology, target).schedule;  // where nobody did
    throw_if_any(verify_request(graph, schedule, problem, topology, target));  // later passes rely on a legal request
    Diagnostics findings;
    const std::optional<Pattern> pattern = match_pattern(graph, &findings);
    throw_if_any(findings);
    const auto passes_of = [&](const auto& kind) {
        return lower_pattern(kind, graph, schedule, problem, topology, target);
    };
    return std::visit(passes_of, *pattern);
}

Plan lower(const Graph& graph, const Schedule& schedule, const Problem& problem, const Topology& topology,
           const Target& target) {
    Plan plan = lower_unproven(graph, schedule, problem, topology, target);
    throw_if_any(verify_plan(plan, target));  // proves the plan, not the passes
    return plan;
}

}  // namespace plait
