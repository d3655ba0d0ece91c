// Pass 6, place_roles: which agent of which CTAs runs which program.
//
// Before: choices are resolved. After: roles, agents and empty programs with their CTA ranges are in the plan; the
// program passes fill the bodies. An agent runs its programs in list order: inter_send, intra_comm, compute. Data flows
// in that order too (a rank sends before it forwards before it computes), so an agent that has several never waits for
// what it would do itself later.
//
// sms roles take the first CTAs for good. phase roles take the next ones, as many as there are: their expressions are
// clamped by `ctas`, and overlap where CTAs are few.
#pragma once
#include "compiler/ir/plan.h"
#include "compiler/passes/choices.h"

namespace plait {

void place_roles(const Choices& choices, Plan* plan);

// How many agents of the launch report agent_finished, as an expression.
std::string finishing_agents(const Choices& choices);
// True where `program` is the last one of its agent on its CTAs, and so reports agent_finished.
bool ends_its_agent(const Plan& plan, const Choices& choices, const std::string& program);
ProgramDef* find_program(Plan* plan, const std::string& name);

}  // namespace plait
