// The passes of a grouped matmul: rows of an expert's segment times the expert's weights, tile after tile.
//
// Before: the request has passed verify_request. After: a complete Plan. Tiles are derived from the ends of the
// segments, which lie on the device: the host knows the number of rows and of experts and nothing else. A tile is
// (first row, valid rows, column, expert); tiles of a launch ascend by expert, and a CTA's tiles ascend as well, so
// that each walks the table once. The table is checked on the way: an end that does not ascend, or a last one that is
// not M, is reported, and bounded so that no tile leaves the memory it was given.
#pragma once
#include "compiler/ir/graph.h"
#include "compiler/ir/grouped_pattern.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"

namespace plait::grouped {

Plan lower(const Graph& graph, const GroupedPattern& pattern, const Schedule& schedule, const Problem& problem,
           const Topology& topology, const Target& target);

}  // namespace plait::grouped
