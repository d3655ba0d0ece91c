// Everything of an attention plan but its programs' bodies: sizes, tensors and maps, shared memory, edges, agents.
//
// Before: choices are resolved. After: every name that the programs use is declared. Keys and batch are launch arguments
// beside M; no storage depends on them.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/attention/choices.h"

namespace plait {

class Block;

namespace attention {

void declare_sizes(const Graph& graph, const Target& target, const Choices& choices, Plan* plan);
void declare_tensors(const Graph& graph, const Choices& choices, Plan* plan);
void declare_memory(const Choices& choices, Plan* plan);  // shared memory, barriers, and the edges over them
void declare_agents(const Choices& choices, Plan* plan);

// Lets of tile t, the same in every agent: sequence, h, kv, row, rows, and `blocks`, the key blocks that one of its rows
// sees.
void declare_tile(Block& block, const Choices& choices);

}  // namespace attention
}  // namespace plait
