// Pass 7, lower_inter_send: the program of role inter_send, inter_send_sender.
//
// Before: its ProgramDef stands in the plan, empty. After: own chunks are staged in the workspace, where the NIC reads
// them, and each crosses the network once per other node, to the rank of the same rail. The rail peers are told first
// that this rank has entered: the relay may not do it, since it alone frees the FIFO's slots.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/choices.h"

namespace plait {

void lower_inter_send(const Choices& choices, Plan* plan);

}  // namespace plait
