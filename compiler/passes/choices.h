// Pass 1, resolve_choices: every number that later passes use, from Schedule, Problem and Topology, in one place.
//
// Before: the request has passed verify_request. After: no later pass reads a knob or the topology. Defaults that were
// not given give way where they do not fit (stages, pieces); given values never do: the verifier refuses them.
// Nothing here depends on the number of SMs or on the target, so the programs are the same bytes on every machine.
#pragma once
#include <cstdint>
#include <string>

#include "compiler/ir/fused_pattern.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"
#include "compiler/passes/kernel_choices.h"

namespace plait {

struct RoleChoice {
    std::string placement = "none";  // none sms warp phase
    std::int64_t sms = 0;            // of sms and phase
    bool active() const { return placement != "none"; }
};

struct Choices : MatmulChoices {
    FusedPattern pattern;
    bool communicates = false;  // rows are gathered over more than one rank

    std::int64_t box_cols = 0, output_boxes = 0;    // columns of an output box: 128 bytes a row; boxes of a warpgroup
    std::string order;
    std::int64_t cluster = 1;      // CTAs of a cluster, which compute neighbouring tiles
    bool shares_a = false, shares_b = false;  // operand that the CTAs of a cluster load together: one of the two

    std::int64_t shard_max = 0, chunk_rows = 0, chunks_max = 0;
    std::int64_t piece_bytes = 0, pieces = 0;
    std::int64_t lag = 0;  // loads run ahead of puts by so many pieces
    RoleChoice intra_comm, inter_send;

    std::int64_t stage_bytes() const { return k_boxes * (a_stage_bytes + (pattern.gated ? 2 : 1) * b_stage_bytes); }
    bool clustered() const { return cluster > 1; }
    bool ragged_columns() const { return tile_n % box_cols != 0; }  // the last box of a row is cut at the tile's edge
    bool any(const std::string& placement) const {
        return intra_comm.placement == placement || inter_send.placement == placement;
    }
};

// ScheduleError: a placement that is legal and not built yet.
Choices resolve_choices(const Graph& graph, const FusedPattern& pattern, const Schedule& schedule,
                        const Problem& problem, const Topology& topology, const Target& target);

}  // namespace plait
