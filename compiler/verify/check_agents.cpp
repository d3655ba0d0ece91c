// Agents stand on warps of their own, and ops run in agents that can run them: one-thread agents copy, signal and wait
// on others; warpgroups compute and wait only for their own CTA.
#include <fmt/format.h>

#include <map>

#include "compiler/verify/rules.h"
#include "compiler/verify/walk.h"

namespace plait {
namespace {

enum class Runs { Any, Thread, Warpgroup, Entry };

Runs runs_in(Op op) {
    switch (op) {
        case Op::AgentSync:
        case Op::AccDeclare:
        case Op::MmaBegin:
        case Op::MmaIssue:
        case Op::MmaCommit:
        case Op::MmaWait:
        case Op::Map:
        case Op::Pointwise:
        case Op::AccJoin:
        case Op::StageBox:
        case Op::GatherDeclare:
        case Op::GatherTake:
        case Op::GatherIndex:
        case Op::GatherRows:
        case Op::GatherWait:
        case Op::StoreRows:
        case Op::AccFill:
        case Op::AddBox:
        case Op::RowDeclare:
        case Op::PartDeclare:
        case Op::MaskCols:
        case Op::RowRescale:
        case Op::Exp2Rows:
        case Op::RowSum:
        case Op::FinishRows:
        case Op::ScaleRows:
        case Op::DivideRows:
        case Op::OperandDeclare:
        case Op::AsOperand:
        case Op::SoftmaxOperand:
        case Op::MmaIssueOperand:
        case Op::Settle:
        case Op::TurnWait:
        case Op::TurnPass:
        case Op::StoreLogSumExp:
            return Runs::Warpgroup;
        case Op::LoadBytes:
        case Op::PutBytes:
        case Op::WaitFlag:
        case Op::WaitFlags:
        case Op::FifoReserve:
        case Op::FifoWrite:
        case Op::FifoPublish:
        case Op::FifoWait:
        case Op::RelayDeclare:
        case Op::RelayPoll:
        case Op::RelayTake:
        case Op::RelayForward:
        case Op::RelayIdle:
        case Op::AgentFinished:
            return Runs::Thread;
        case Op::CtaBarrier:
        case Op::Leave:
            return Runs::Entry;
        default:
            return Runs::Any;
    }
}

void check_places(const Plan& plan, Diagnostics* findings) {
    std::map<std::pair<int, int>, std::string> taken;
    for (const AgentDef& agent : plan.agents) {
        auto report = [&](std::string message, std::string hint) {
            findings->push_back({"check_agents", std::move(message), "agent " + agent.name, std::move(hint)});
        };
        if (agent.warpgroup < 0 || 128 * (agent.warpgroup + 1) > plan.threads) {
            report(fmt::format("agent {} stands in warpgroup {}, a CTA has {}", agent.name, agent.warpgroup,
                               plan.threads / 128),
                   "raise threads");
        }
        if (agent.warp < 0 || agent.warp > 3)
            report(fmt::format("agent {} stands in warp {} of a warpgroup", agent.name, agent.warp),
                   "a warpgroup has warps 0 to 3");
        for (int warp = agent.kind == AgentKind::Warpgroup ? 0 : agent.warp;
             warp <= (agent.kind == AgentKind::Warpgroup ? 3 : agent.warp); ++warp) {
            const auto [other, fresh] = taken.insert({{agent.warpgroup, warp}, agent.name});
            if (!fresh) {
                report(fmt::format("agents {} and {} both stand in warp {} of warpgroup {}", other->second, agent.name,
                                   warp, agent.warpgroup),
                       "give each its own warp");
                break;
            }
        }
    }
}

}  // namespace

Diagnostics check_agents(const Plan& plan) {
    Diagnostics findings;
    check_places(plan, &findings);
    for (const std::vector<Step>& program : walk(plan)) {
        for (const Step& step : program) {
            if (step.agent == nullptr) continue;
            const Runs runs = runs_in(step.statement->op);
            const bool thread = step.agent->kind == AgentKind::Thread;
            if (runs == Runs::Entry)
                findings.push_back({"check_agents", fmt::format("{} inside a program", mnemonic(step)), step.where(),
                                    "the kernel's entry meets and leaves, after all agents"});
            if ((runs == Runs::Thread && !thread) || (runs == Runs::Warpgroup && thread)) {
                findings.push_back({"check_agents",
                                    fmt::format("{} runs in {}, agent {} is a {}", mnemonic(step),
                                                thread ? "warpgroup agents" : "one-thread agents", step.agent->name,
                                                thread ? "thread" : "warpgroup"),
                                    step.where(), "move it to an agent of the other kind"});
            }
        }
    }
    return findings;
}

}  // namespace plait
