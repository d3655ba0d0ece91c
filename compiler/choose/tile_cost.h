// What a matmul costs with one tile: SM cycles at the nominal clock, from the shape, the SMs and a handful of measured
// constants. Good for ranking tiles, not for predicting a time.
#pragma once
#include <cstdint>

#include "compiler/ir/target.h"

namespace plait {

struct MatmulShape {
    std::int64_t m = 0, n = 0, k = 0;   // n: columns of the output
    bool transpose_a = false;           // a is [k, m]
    bool transpose_b = false;           // b is [n, k]
    bool gated = false;                 // two products for each column of the output
    bool pointwise = false;             // an epilogue that keeps values beside the accumulator
    std::int64_t output_bytes = 2;      // of one element
};

// What the two CTAs of a cluster load together; None: no cluster.
enum class Shared { None, A, B };

struct Tile {
    std::int64_t m = 128, n = 256, stages = 4, consumers = 2, boxes = 2;  // boxes: of a warpgroup, for output
    std::int64_t depth = 64;                                              // of k in a stage
    Shared shared = Shared::None;
    bool operator==(const Tile&) const = default;
};

struct TileCost {
    std::int64_t tiles = 0;  // those beyond the output that a cluster walks count
    double waves = 0;        // tiles / SMs
    double cycles = 0;
};

TileCost tile_cost(const MatmulShape& shape, const Tile& tile, const Target& target);

// Bytes of one slot of the operand ring.
std::int64_t stage_bytes(const MatmulShape& shape, const Tile& tile);
// The most slots, up to 8, that fit beside the output boxes; less than 2: the tile does not fit.
std::int64_t stages_that_fit(const MatmulShape& shape, const Tile& tile, const Target& target);
// fp32 registers of the accumulators, a thread.
std::int64_t accumulator_registers(const MatmulShape& shape, const Tile& tile);
// Row tiles walked before the next column of tiles: a wave then covers about as many rows as columns of the output, so
// that its operands are read from memory least often. A power of two, at most the row tiles there are.
std::int64_t raster_group(const MatmulShape& shape, const Tile& tile, const Target& target);

}  // namespace plait
