// Pass 10, lower_compute: the programs of role compute, compute_loader and compute_consumer0, 1, ...
//
// Before: their ProgramDefs stand in the plan, empty. After: the loader fetches tiles, hands them to the consumers
// through a ring of two, waits for the chunks under a tile and feeds the operand ring; consumers multiply, apply the
// pointwise ops to the accumulator and store boxes. All of them compute the same lets from the tile's number.
//
// Where nothing is gathered all CTAs start alike and tile t belongs to CTA t % ctas (pair t to its cluster): nothing is
// fetched or handed on, the kernel touches no state of the session, and its launches need no order among themselves.
//
// In a cluster the CTAs take neighbouring tiles, one pair after the other, all in the same number of steps. Each loads its share
// of the operand that they have in common, into both; a slot is free when the consumers of both have freed it at both. A
// tile beyond the output is walked too: its loads are zeros, its stores clipped.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/block.h"
#include "compiler/passes/choices.h"

namespace plait {

void lower_compute(const Choices& choices, Plan* plan);

// Shared with lower_consumer.cpp
void declare_tile(Block& block, const Choices& choices);  // row, col of tile t; where rows are gathered q and rows, too
void for_each_own_tile(Block& block, const Choices& choices, const Block::Body& body);  // where nothing is gathered
void lower_consumer(const Choices& choices, std::int64_t index, Plan* plan);

}  // namespace plait
