// Pass 2, declare_sizes: names of the plan, its constants, and the sizes that depend on M.
//
// Before: choices are resolved. After: every later expression may use these names; storage sizes are constants, sizes
// of this launch are lets. Stands first because all other passes write expressions.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/choices.h"

namespace plait {

void declare_sizes(const Graph& graph, const Target& target, const Choices& choices, Plan* plan);

}  // namespace plait
