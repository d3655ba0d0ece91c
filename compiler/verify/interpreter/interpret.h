// Runs a plan symbolically for a set of M and CTA counts.
#pragma once
#include <string>

#include "compiler/ir/target.h"
#include "compiler/verify/interpreter/world.h"

namespace plait::interpreter {

struct Runs {
    Plan plan;                // scaled down where it was too large
    std::string scaled;       // what was scaled, for messages; empty where nothing was
    std::vector<Run> runs;    // the most telling first
    std::int64_t budget = 0;  // cost of all runs together; later runs are left out when it is spent
};

// Depth and columns of large problems shrink to a few tiles: the programs repeat the same steps for each of them. M and
// the number of CTAs are launch arguments and are chosen at the borders of shards, chunks and tiles.
Runs choose_runs(const Plan& plan, const Target& target);
Diagnostics interpret(const Runs& runs);

}  // namespace plait::interpreter
