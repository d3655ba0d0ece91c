// The parts of lower_grouped: what is declared, and one function a program.
#pragma once
#include <functional>
#include <string>

#include "compiler/ir/plan.h"
#include "compiler/passes/block.h"
#include "compiler/passes/grouped/choices.h"

namespace plait::grouped {

void declare(const Graph& graph, const Target& target, const Choices& choices, Plan* plan);
void lower_loader(const Choices& choices, Plan* plan);
void lower_gather(const Choices& choices, Plan* plan);
void lower_consumer(const Choices& choices, std::int64_t index, Plan* plan);

// tile_scan.cpp: where an agent stands in the table of segments, and the tile that a number names.
void begin_scan(Block& b, const Choices& choices);
// After begin_scan, in a loop whose tile numbers `t` ascend: names row, rows (0: no tile is left), col and expert.
void find_tile(Block& b, const Choices& choices);
void load_weights(Block& b, const Choices& choices, const std::string& barrier, const std::string& edge);

}  // namespace plait::grouped
