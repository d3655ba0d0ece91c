// Consumer warpgroups that compute by turns: who goes first, no order of memory.
#pragma once
#include "agent.h"

namespace plait {

static inline void turn_wait(Agent& ag, i64 turn) { ag.engine->turn_wait(ag.handle, static_cast<u32>(turn)); }
static inline void turn_pass(Agent& ag, i64 turn) { ag.engine->turn_pass(ag.handle, static_cast<u32>(turn)); }

}  // namespace plait
