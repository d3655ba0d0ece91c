// Pass 10, lower_compute: the programs of role compute, compute_loader and compute_consumer0, 1, ...
//
// Before: their ProgramDefs stand in the plan, empty. After: the loader fetches tiles, hands them to the consumers
// through a ring of two, waits for the chunks under a tile and feeds the operand ring; consumers multiply, apply the
// pointwise ops to the accumulator and store boxes of 64 x 64. All of them compute the same lets from the tile's
// number.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/choices.h"

namespace plait {

class Block;
void lower_compute(const Choices& choices, Plan* plan);

// Shared with lower_consumer.cpp
void declare_tile(Block& block, const Choices& choices);  // q, row, col, rows of tile t
void lower_consumer(const Choices& choices, std::int64_t index, Plan* plan);

}  // namespace plait
