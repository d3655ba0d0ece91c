// Tile, stages, consumer warpgroups and raster of a request whose schedule sets none of them, from the problem and the
// target: the cheapest tile by tile_cost.h. These knobs never change a bit of the result.
#pragma once
#include <cstdint>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"

namespace plait {

struct Chosen {
    Schedule schedule;
    std::string reason;  // one line for people
};

// m: rows of the launches to come, where a matmul's tile depends on them; 0: problem.m_max. A given tile_m, tile_n, tile_k,
// stages or consumer_warpgroups keeps all five as they are, a given raster_group itself. Where rows are gathered or grouped
// the defaults stay, but for a tile wider than the output. Attention: its consumer warpgroups, where neither they nor tile_m are given.
// Host and GPU get the same: both run the same programs. A target of one SM has no clusters; a session whose budget is one
// CTA needs cluster = 1 said.
Chosen choose_schedule(const Graph& graph, const Schedule& given, const Problem& problem, const Topology& topology,
                       const Target& target, std::int64_t m = 0);

}  // namespace plait
