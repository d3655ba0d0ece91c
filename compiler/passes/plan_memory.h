// Pass 4, plan_memory: symmetric buffers and flags with their offsets, shared memory and barriers.
//
// Before: roles and sizes are known. After: every byte that the programs touch has a name and a place. Copy buffers of
// roles that run in the loader (sms, phase) are operand slots: the loader's own thread has waited for its last put
// before it loads operands. Roles in the mover (warp) run beside the loader and have slots of their own.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/choices.h"

namespace plait {

void plan_memory(const Choices& choices, Plan* plan);

}  // namespace plait
