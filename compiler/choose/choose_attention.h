// Consumer warpgroups of an attention whose schedule sets neither them nor the tile's rows.
#pragma once
#include "compiler/choose/choose_schedule.h"
#include "compiler/ir/attention_pattern.h"

namespace plait {

// The most warpgroups, up to three, whose registers hold scores, result and weights of 64 rows each, and no more than the
// maximum has rows (one compilation serves every length): the more there are, the more of the softmax is hidden behind other
// warpgroups' products.
Chosen choose_attention(const AttentionPattern& pattern, const Schedule& given, const Problem& problem, const Target& target);

}  // namespace plait
