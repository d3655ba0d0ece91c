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
// After begin_scan, with `t` assigned, ever larger: assigns row, rows (0: no tile is left), col and expert.
void find_tile(Block& b, const Choices& choices);
void tell_tile(Block& b, const std::string& row, const std::string& rows, const std::string& col);  // to the consumers

struct WeightsAt {
    std::string col, expert;  // names of a tile's first column and of its expert
};
void load_weights(Block& b, const Choices& choices, const WeightsAt& at, const std::string& barrier,
                  const std::string& edge);

}  // namespace plait::grouped
