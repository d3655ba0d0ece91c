// Every number that the passes of a grouped matmul use, from Schedule and Problem, in one place (see ../choices.h).
#pragma once
#include <cstdint>

#include "compiler/ir/graph.h"
#include "compiler/ir/grouped_pattern.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"

namespace plait::grouped {

struct Choices {
    GroupedPattern pattern;
    std::int64_t world = 1, nodes = 1, locals = 1;
    std::int64_t m_max = 0, n = 0, k = 0;
    std::map<std::string, std::int64_t> limits;

    std::int64_t tile_m = 0, tile_n = 0, tile_k = 0, k_blocks = 0, stages = 0;
    std::int64_t consumers = 0, consumer_rows = 0;  // rows of a tile that one consumer warpgroup computes
    std::int64_t raster_group = 0;
    std::int64_t a_stage_bytes = 0, b_stage_bytes = 0;
    std::int64_t lag = 0;  // gathered blocks are announced so many blocks after they were asked for
    std::int64_t producer_registers = 0, consumer_registers = 0;
    std::int64_t threads() const { return 128 * (1 + consumers); }
};

Choices resolve_choices(const GroupedPattern& pattern, const Schedule& schedule, const Problem& problem,
                        const Topology& topology, const Target& target);

}  // namespace plait::grouped
