#include "compiler/choose/tile_cost.h"

#include <algorithm>
#include <cmath>

#include "compiler/choose/waves.h"

namespace plait {
namespace {

constexpr std::int64_t kElement = 2;           // of an operand
constexpr std::int64_t kDepth = 64;            // of a k block; a stage has one or more
constexpr std::int64_t kWarpgroup = 128;
constexpr std::int64_t kBoxBytes = 64 * 128;
constexpr std::int64_t kBarrierRoom = 1024;
constexpr std::int64_t kMaxStages = 8;

// Measured on an H200, in SM cycles at 1.755 GHz (docs/results).
constexpr double kElementCycles = 0.0348;      // multiplying one element of the tile over a k block
// Loading one 128-byte row of a box into one SM, by the alignment of its pitch: a row off the grid of 32-byte sectors
// touches five of them.
constexpr double kRowCycles = 2.5, kRowCyclesAt32 = 3.0, kRowCyclesAt16 = 4.2;
constexpr double kSharpness = 12;              // of the knee between multiplying and loading: 1.06 where both take as long
constexpr double kReceivedRowCycles = 1.8;     // the same where another CTA of the cluster has asked for it
constexpr double kClusterFactor = 1.035;       // CTAs that wait for each other: -1 to 3 %; a cluster must be worth it
constexpr double kClusterLaunchCycles = 1500;  // barriers of the cluster at the start and the end
constexpr double kPowerByteCycles = 0.005;     // an operand byte's price where a kernel runs into the power limit
constexpr double kPowerLimitCycles = 14e6;     // 8 ms: from here on the clock is what the power limit leaves
constexpr double kRaggedFactor = 1.01;         // widths that are no multiple of a box of 64 columns
// A stage takes no less, with 1, 2, 3 consumer warpgroups, and this much more for each further block in it.
constexpr double kHandOverCycles[] = {400, 410, 480}, kFurtherBlockCycles = 60;
constexpr double kClusterHandOverCycles[] = {450, 200, 200};  // beside it, where another CTA has to hand over, too
constexpr double kMemoryBytesPerCycle = 2280;  // of the GPU's memory: 4 TB/s
constexpr double kStoreByteCycles = 0.038;     // the epilogue stands between two tiles
constexpr double kPointwiseFactor = 1.5;       // of it
constexpr double kLaunchCycles = 8800;         // launch, first loads, last stores

std::int64_t products(const MatmulShape& s) { return s.gated ? 2 : 1; }

double row_cycles(std::int64_t pitch) {
    const std::int64_t bytes = pitch * kElement;
    return bytes % 64 == 0 ? kRowCycles : bytes % 32 == 0 ? kRowCyclesAt32 : kRowCyclesAt16;
}

// An operand of a k block in memory: rows of k along the tile's extent, or, where k counts rows, boxes of 64 columns.
struct Operand {
    std::int64_t rows, pitch;
};
Operand operand_a(const MatmulShape& s, const Tile& t) {
    return s.transpose_a ? Operand{ceil_div(t.m, 64) * 64, s.m} : Operand{t.m, s.k};
}
Operand operand_b(const MatmulShape& s, const Tile& t) {
    return s.transpose_b ? Operand{products(s) * t.n, s.k} : Operand{products(s) * ceil_div(t.n, 64) * 64, s.n};
}
// Of a shared operand a CTA asks for one half.
double load_cycles(const MatmulShape& s, const Tile& t) {
    const Operand a = operand_a(s, t), b = operand_b(s, t);
    const auto asked = [&](const Operand& o, Shared which) {
        return double(o.rows) * row_cycles(o.pitch) / (t.shared == which ? 2 : 1);
    };
    return std::max(asked(a, Shared::A) + asked(b, Shared::B), double(a.rows + b.rows) * kReceivedRowCycles);
}

// Of one k block: multiplying and loading overlap, the slower one counts, and both a little where they are close.
double block_cycles(const MatmulShape& s, const Tile& t, double power) {
    const double blocks = double(t.depth / kDepth), bytes = double(stage_bytes(s, t)) / blocks;
    const double hand_over = (kHandOverCycles[t.consumers - 1] + (blocks - 1) * kFurtherBlockCycles +
                              (t.shared != Shared::None ? kClusterHandOverCycles[t.consumers - 1] : 0)) / blocks;
    const double multiply = double(t.m * t.n * products(s)) * kElementCycles + bytes * power * kPowerByteCycles;
    const double load = load_cycles(s, t), slower = std::max(multiply, load);
    const double knee = std::pow(1 + std::pow(std::min(multiply, load) / slower, kSharpness), 1 / kSharpness);
    return std::max(slower * knee * (t.n % 64 != 0 ? kRaggedFactor : 1.0), hand_over);
}

}  // namespace

std::int64_t stage_bytes(const MatmulShape& s, const Tile& t) {
    return (operand_a(s, t).rows + operand_b(s, t).rows) * t.depth * kElement;
}

std::int64_t stages_that_fit(const MatmulShape& s, const Tile& t, const Target& target) {
    const std::int64_t room = target.shared_memory_bytes - t.boxes * t.consumers * kBoxBytes - kBarrierRoom;
    return std::min(room / stage_bytes(s, t), kMaxStages);
}

std::int64_t accumulator_registers(const MatmulShape& s, const Tile& t) {
    return t.m / t.consumers * t.n * products(s) / kWarpgroup;
}

std::int64_t raster_group(const MatmulShape& s, const Tile& t, const Target& target) {
    const std::int64_t height = t.m * (t.shared == Shared::B ? 2 : 1);  // pairs of row tiles are walked
    const double square = std::sqrt(double(target.sms) * double(t.n) / double(t.m)) * double(t.m) / double(height);
    const std::int64_t rows = std::max<std::int64_t>(ceil_div(s.m, height), 1);
    std::int64_t group = std::int64_t(std::exp2(std::round(std::log2(square))));
    while (group / 2 >= rows) group /= 2;
    return std::clamp<std::int64_t>(group, 1, 64);
}

TileCost tile_cost(const MatmulShape& s, const Tile& t, const Target& target) {
    TileCost cost;
    const auto tiles_along = [](std::int64_t extent, std::int64_t tile, bool pairs) {
        const std::int64_t tiles = ceil_div(extent, tile);
        return pairs ? ceil_div(tiles, 2) * 2 : tiles;
    };
    const bool clustered = t.shared != Shared::None;
    cost.tiles = tiles_along(s.m, t.m, t.shared == Shared::B) * tiles_along(s.n, t.n, t.shared == Shared::A);
    cost.waves = double(cost.tiles) / double(clustered ? target.sms / 2 * 2 : target.sms);
    const double rounds = std::ceil(cost.waves), blocks = double(ceil_div(s.k, kDepth));
    double store = double(t.m * t.n * s.output_bytes) * kStoreByteCycles;
    if (s.pointwise || s.gated) store *= kPointwiseFactor;
    const double factor = clustered ? kClusterFactor : 1;
    const auto total = [&](double power) { return rounds * (blocks * block_cycles(s, t, power) * factor + store); };
    const double power = std::min(total(0) / kPowerLimitCycles, 1.0);
    const double memory = double((s.m + products(s) * s.n) * s.k * kElement + s.m * s.n * s.output_bytes) / kMemoryBytesPerCycle;
    // A kernel that memory bounds still prefers the tile that leaves the SMs more time.
    const double compute = total(power);
    cost.cycles = kLaunchCycles + (clustered ? kClusterLaunchCycles : 0) + std::max(compute, memory) + 0.05 * std::min(compute, memory);
    return cost;
}

}  // namespace plait
