// Pass 3, declare_tensors: the caller's tensors in the graph's order, output last, and the tensor maps over them.
//
// Before: sizes are declared. After: TMA sees each memory through maps whose extents clip at N and at the end of a
// shard, so tiles never cross shards and stores never touch a neighbour's rows.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/choices.h"

namespace plait {

void declare_tensors(const Graph& graph, const Choices& choices, Plan* plan);

}  // namespace plait
