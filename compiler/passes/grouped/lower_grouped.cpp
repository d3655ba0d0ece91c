#include "compiler/passes/grouped/lower_grouped.h"

#include "compiler/passes/grouped/choices.h"
#include "compiler/passes/grouped/programs.h"

namespace plait::grouped {

Plan lower(const Graph& graph, const GroupedPattern& pattern, const Schedule& schedule, const Problem& problem,
           const Topology& topology, const Target& target) {
    const Choices choices = resolve_choices(pattern, schedule, problem, topology, target);
    Plan plan;
    declare(graph, target, choices, &plan);  // sizes, memory, barriers, edges, agents
    if (pattern.gathers())
        lower_gather(choices, &plan);  // one warpgroup copies rows and loads weights
    else
        lower_loader(choices, &plan);  // one thread loads both
    for (std::int64_t i = 0; i < choices.consumers; ++i) lower_consumer(choices, i, &plan);
    return plan;
}

}  // namespace plait::grouped
