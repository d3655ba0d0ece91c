// Everything of an attention plan but its programs' bodies: sizes, tensors and maps, shared memory, edges, agents.
//
// Before: choices are resolved. After: every name that the programs use is declared. Keys and batch are launch arguments
// beside M; no storage depends on them.
#pragma once
#include <string>

#include "compiler/ir/plan.h"
#include "compiler/passes/attention/choices.h"

namespace plait {

class Block;

namespace attention {

void declare_sizes(const Graph& graph, const Target& target, const Choices& choices, Plan* plan);
void declare_tensors(const Graph& graph, const Choices& choices, Plan* plan);
void declare_memory(const Choices& choices, Plan* plan);  // shared memory, barriers, and the edges over them
void declare_agents(const Choices& choices, Plan* plan);

// Words of a tile that the loader hands to the consumers: its first row, or -1 where there are no more tiles, and its head
// (of all sequences). Consumers read them a second time for the epilogue, so that no register holds them over the loops.
inline constexpr int kTileWords = 2;
enum class TileWord { Row, Head };
std::string tile_word(TileWord word);
// `head` and `row` of tile t, for the loader.
void declare_tile(Block& block, const Choices& choices);
// Key blocks that causal rows in front of `row` see, at least those of the first `least` keys.
std::string blocks_before(const Choices& choices, const std::string& row, std::int64_t least);
// `blocks`, the key blocks that one of the tile's rows sees.
void declare_blocks(Block& block, const Choices& choices);

}  // namespace attention
}  // namespace plait
