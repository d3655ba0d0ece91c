// Every number that the attention passes use, from pattern, Schedule, Problem and Topology.
//
// Before: the request has passed verify_request. After: no later pass reads a knob or the topology. Nothing here changes a
// bit of the result: the order of key blocks and the rule of rescaling are the pattern's.
#pragma once
#include <cstdint>
#include <string>

#include "compiler/ir/attention_pattern.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/target.h"
#include "compiler/passes/kernel_choices.h"

namespace plait::attention {

// What a consumer has in flight while it computes the softmax of a key block.
enum class Overlap {
    Serial,    // nothing
    Products,  // the product with the values of the block before
    Rescale,   // that; the result is rescaled behind the issue of the next scores
    Operands,  // that; weights are packed into a second operand meanwhile
    Joint,     // nothing: both products run together and are waited for together
};

struct Choices : KernelChoices {
    AttentionPattern pattern;
    std::int64_t keys_max = 0, batch_max = 0;

    std::int64_t tile_m = 0;                 // 64 rows a consumer warpgroup
    std::int64_t stages = 0;                 // of the K and of the V ring
    Overlap overlap = Overlap::Serial;
    bool turn = false;             // consumers issue one after the other
    bool skips = false;            // consumers pass over blocks that none of their own rows sees
    std::int64_t head_group = 0;   // key-value heads whose row tiles alternate; 0: by the size of their keys and values

    std::int64_t boxes() const { return pattern.head_dim / 64; }    // of Q, of a K stage, of a V half, of the result
    std::int64_t halves() const { return pattern.key_block / 64; }  // of a V stage: 64 keys each
    bool late_rescale() const { return overlap == Overlap::Rescale || overlap == Overlap::Operands; }
    std::int64_t output_slots() const { return boxes() < 2 ? 1 : 2; }  // of a warpgroup: one fills while one is stored
};

Choices resolve_choices(const AttentionPattern& pattern, const Schedule& schedule, const Problem& problem,
                        const Topology& topology);

}  // namespace plait::attention
