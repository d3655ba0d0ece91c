// Pass 8, lower_intra_comm: the program of role intra_comm, intra_comm_pusher.
//
// Before: its ProgramDef stands in the plan, empty. After: every own chunk, and every chunk that arrives over this
// rank's rail, is put into a_full of the other local ranks and announced. A chunk is announced before the next wait on
// others, so no pusher holds finished chunks back.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/choices.h"

namespace plait {

void lower_intra_comm(const Choices& choices, Plan* plan);

}  // namespace plait
