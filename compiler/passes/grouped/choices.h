// Every number that the passes of a grouped matmul use, from Schedule and Problem, in one place (see ../choices.h).
#pragma once
#include <cstdint>

#include "compiler/ir/graph.h"
#include "compiler/ir/grouped_pattern.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"
#include "compiler/passes/kernel_choices.h"

namespace plait::grouped {

struct Choices : MatmulChoices {
    GroupedPattern pattern;
    std::map<std::string, std::int64_t> limits;
    std::int64_t lag = 0;  // gathered blocks are announced so many blocks after they were asked for
};

Choices resolve_choices(const GroupedPattern& pattern, const Schedule& schedule, const Problem& problem,
                        const Topology& topology, const Target& target);

}  // namespace plait::grouped
