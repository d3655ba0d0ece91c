// Pass 5, declare_edges: every hand-over of data or space, typed. Programs emit signals and waits by these names.
//
// Before: memory is planned. After: each edge has a row in the edge table. Stands before the programs, because they may
// only signal and wait through an edge.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/choices.h"

namespace plait {

void declare_edges(const Choices& choices, Plan* plan);

}  // namespace plait
