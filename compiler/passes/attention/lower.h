// The programs of an attention plan: the loader's, and the one that all consumers run.
//
// Before: everything else of the plan is declared. After: the loader fetches tiles and feeds Q, the K ring and the V ring,
// each under barriers of its own; every consumer keeps the online softmax of 64 rows in registers over all key blocks of
// the tile. That state is declared outside of the loop over blocks, so that keys that arrive later go on where the last
// ones stopped.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/attention/choices.h"

namespace plait::attention {

void lower_loader(const Choices& choices, Plan* plan);
void lower_consumers(const Choices& choices, Plan* plan);

}  // namespace plait::attention
