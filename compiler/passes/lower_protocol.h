// Pass 9, lower_protocol: the relay, one thread of CTA 0.
//
// Before: protocol_relay stands in the plan, empty. After: local peers learn that this rank has entered, and what the
// host writes (arrivals, completed sends, abort) is forwarded into GPU memory until every agent that waits on others is
// done. The relay waits for nothing itself. Set-up of barriers and `leave` are the kernel's entry, see codegen.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/choices.h"

namespace plait {

void lower_protocol(const Choices& choices, Plan* plan);

}  // namespace plait
