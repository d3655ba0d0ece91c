#include "compiler/verify/interpreter/world.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace plait::interpreter {
namespace {

// Whether `row` is a value that the program reads from a list: then covering the rows is that list's promise.
bool names_a_listed_value(const Program& program, const Expr& row) {
    const std::set<std::string> names = row.names();
    for (const Instruction& i : program.code) {
        if (i.op == Op::LoadValue && names.count(i.step.statement->word("name")) != 0) return true;
    }
    return false;
}

}  // namespace

World::World(const Code& code, const Run& run) : code_(code), plan_(*code.plan), run_(run) {
    for (const Program& program : code.programs) {
        for (const Instruction& i : program.code) {
            if (i.op == Op::StoreRows && names_a_listed_value(program, i.step.statement->expr("row")))
                scattered_.insert(i.step.statement->word("tensor"));
        }
    }
    for (const FlagDef& flag : plan_.flags) session_flags_ = session_flags_ || flag.session;
    const int world = int(plan_.world), ctas = int(run.ctas);
    ranks_.resize(world);
    ctas_.resize(std::size_t(world) * ctas);
    for (int rank = 0; rank < world; ++rank) {
        sizes_.emplace_back(plan_, run.m, rank, 0, run.ctas, run.params, run.row_gap);
        for (int cta = 0; cta < ctas; ++cta) {
            const Environment env(plan_, run.m, rank, cta, run.ctas, run.params, run.row_gap);
            std::vector<std::int64_t> globals;
            for (const std::string& name : code.globals) globals.push_back(env.values().at(name));
            for (const AgentDef& definition : plan_.agents) {
                Agent agent;
                agent.rank = rank, agent.cta = cta, agent.definition = &definition;
                agent.slots = globals;
                agent.slots.resize(code.slots);
                agent.slots[code.warpgroup] = definition.warpgroup;
                agent.values.resize(code.values);
                for (std::size_t p = 0; p < code.programs.size(); ++p) {
                    const Program& program = code.programs[p];
                    const auto& own = definition.programs;
                    if (std::find(own.begin(), own.end(), program.definition->name) == own.end()) continue;
                    if (value(agent, program.first_cta) <= cta && cta < value(agent, program.last_cta))
                        agent.programs.push_back(int(p));
                }
                if (agent.programs.empty()) continue;
                agent.id = int(agents_.size());
                agents_.push_back(std::move(agent));
            }
        }
    }
    // Programs stand in the plan in any order; an agent runs them in its own.
    for (Agent& agent : agents_) start(&agent);
    for (CtaState& cta : ctas_) cta.shared.resize(code.shared_slots), cta.barriers.resize(code.barriers);
    for (int rank = 0; rank < world; ++rank) {
        RankState& state = ranks_[rank];
        state.flags.resize(code.flags), state.buffers.resize(plan_.buffers.size()),
            state.outputs.resize(plan_.tensors.size());
        state.nic_clock.resize(2 * agents_.size() + 2 * world);
        for (std::size_t f = 0; f < plan_.flags.size(); ++f) {
            // Who waits for entered[p] >= epoch - 1 knows that p has ended the launch before that.
            for (int p = 0; plan_.flags[f].session && p < plan_.flags[f].count && p < world; ++p) {
                FlagState& flag = state.flags[code.first_flag[f] + p];
                flag.clock.resize(2 * agents_.size() + 2 * world);
                flag.clock.set(entered_component(p), 1);
            }
        }
    }
}

void World::start(Agent* agent) {
    std::vector<int> ordered;
    for (const std::string& name : agent->definition->programs) {
        for (int p : agent->programs) {
            if (code_.programs[p].definition->name == name) ordered.push_back(p);
        }
    }
    agent->programs = ordered;
    agent->clock.resize(2 * agents_.size() + 2 * plan_.world);
}

Diagnostics World::interpret() {
    try {
        bool progress = true;
        while (progress && steps_ < run_.max_steps) {
            progress = false;
            for (std::size_t i = 0; i < agents_.size(); ++i) {
                Agent& agent = agents_[run_.reverse ? agents_.size() - 1 - i : i];
                if (!agent.done()) progress = advance(&agent) || progress;
            }
            for (int rank = 0; rank < plan_.world; ++rank) progress = network_step(rank) || progress;
        }
        if (progress)
            report_at("check_progress", fmt::format("no end after {} steps", steps_), "launch",
                      "a loop never reaches its break");
        else
            deadlock();
        at_end();
    } catch (const Error& error) {
        report_at("check_progress", error.message(), "launch", "an expression has no value here");
    }
    return std::move(findings_);
}

// Runs an agent until it blocks or ends a program.
bool World::advance(Agent* agent) {
    bool any = false;
    while (!agent->done() && steps_ < run_.max_steps) {
        const Program& program = code_.programs[agent->programs[agent->program]];
        if (agent->pc >= int(program.code.size())) {
            if (!agent->groups.empty() || !agent->open.reads.empty() || !agent->mma_groups.empty() ||
                !agent->gathers.empty()) {
                report(
                    "check_progress",
                    fmt::format("program {} ends with copies or matrix operations in flight", program.definition->name),
                    *agent, "wait for them before the end");
            }
            agent->program += 1, agent->pc = 0, any = true;
            continue;
        }
        const Instruction& i = program.code[agent->pc];
        ++steps_;
        int next = agent->pc + 1;
        switch (i.control) {
            case Control::Jump:
                next = i.jump;
                break;
            case Control::JumpIf:
                if (value(*agent, i.operands[0])) next = i.jump;
                break;
            case Control::JumpUnless:
                if (!value(*agent, i.operands[0])) next = i.jump;
                break;
            case Control::Set:
                agent->slots[i.slot] = value(*agent, i.operands[0]);
                break;
            case Control::None:
                if (execute(agent, i) == Result::Blocked) return any;
                break;
        }
        agent->pc = next, any = true;
    }
    return any;
}

std::string World::place(const Agent& agent) const {
    return fmt::format("rank {} CTA {} agent {}", agent.rank, agent.cta, agent.definition->name);
}

void World::report(const char* rule, const std::string& message, const Agent& agent, const std::string& hint) {
    std::string where = "launch";
    if (!agent.done()) {
        const Program& program = code_.programs[agent.programs[agent.program]];
        where = "program " + program.definition->name;
        if (agent.pc < int(program.code.size())) where = program.code[agent.pc].step.where();
    }
    if (!reported_.insert(where + rule + hint).second) return;
    report_at(rule, fmt::format("{} ({}, M = {})", message, place(agent), run_.m), where, hint);
}

void World::report_at(const char* rule, const std::string& message, const std::string& where, const std::string& hint) {
    constexpr std::size_t kMaxFindings = 16;
    if (findings_.size() < kMaxFindings) findings_.push_back({rule, message, where, hint});
}

// What a blocked agent waits for, with expected and seen.
std::string World::waits_for(const Agent& agent) const {
    const Program& program = code_.programs[agent.programs[agent.program]];
    const Instruction& i = program.code[agent.pc];
    const auto v = [&](std::size_t operand) { return value(agent, i.operands[operand]); };
    const RankState& rank = ranks_[agent.rank];
    std::string what = op_spec(i.op).mnemonic;
    if (i.op == Op::BarrierWait) {
        const std::int64_t index = value(agent, i.index);
        const BarrierState& b = ctas_[agent.rank * run_.ctas + agent.cta].barriers[i.object + index];
        what += fmt::format(" {} parity {}: phase {} has {} arrivals and {} bytes to come",
                            i.step.statement->expr("bar").print(), v(0), b.phase, b.arrivals, b.bytes);
    } else if (i.op == Op::WaitFlag || i.op == Op::WaitFlags) {
        const bool many = i.op == Op::WaitFlags;
        const std::int64_t first = v(0), count = many ? v(1) : 1, expected = v(many ? 2 : 1);
        for (std::int64_t n = first; n < first + count; ++n) {
            const std::int64_t seen = rank.flags[i.object + n].value;
            if (seen >= expected) continue;
            what += fmt::format(" {}[{}] >= {}, sees {}", i.step.statement->word("flag"), n, expected, seen);
            break;
        }
    } else if (i.op == Op::FifoReserve) {
        what += fmt::format(": {} claimed, {} completed, {} slots", rank.next_position, rank.forwarded, kFifoSlots);
    } else if (i.op == Op::TurnWait) {
        what += fmt::format(" {}", v(0));
    } else if (i.op == Op::FifoWait) {
        what += fmt::format(" {}: {} completed", v(0), rank.forwarded);
    }
    return fmt::format("{} waits at {} ({}) for {}", place(agent), program.definition->name, i.step.number, what);
}

void World::deadlock() {
    std::string list;
    int blocked = 0;
    std::set<std::string> programs;
    const Agent* first = nullptr;
    for (const Agent& agent : agents_) {
        if (agent.done()) continue;
        blocked += 1;
        if (first == nullptr) first = &agent;
        const std::string key =
            code_.programs[agent.programs[agent.program]].definition->name + std::to_string(agent.pc);
        if (programs.insert(key).second && programs.size() <= 6) list += "\n    " + waits_for(agent);
    }
    if (blocked == 0) return;
    const Program& program = code_.programs[first->programs[first->program]];
    report_at("check_progress",
              fmt::format("deadlock at M = {}, {} CTAs: {} agents wait for ever{}", run_.m, run_.ctas, blocked, list),
              program.code[first->pc].step.where(), "each wait needs a signal that does not itself wait for it");
}

// An entry signal that is waited for must be sent in every launch, or a later launch hangs.
void World::entry_signal(int r, int flag) {
    bool sent = ranks_[r].flags[flag].value >= kEpoch;
    for (const Arrival& arrival : ranks_[r].arrivals) sent = sent || (arrival.flag == flag && arrival.value >= kEpoch);
    if (sent) return;
    int from = flag;
    for (std::size_t f = 0; f < plan_.flags.size(); ++f) {
        if (plan_.flags[f].session) from = flag - code_.first_flag[f];
    }
    report_at("check_protocol",
              fmt::format("rank {} waits for the entry signal of rank {}, which sends it none in this launch: the next "
                          "launch would hang (M = {})",
                          r, from, run_.m),
              "launch", "signal entered = epoch to every rank that puts into this one");
}

// A CTA's shared memory is gone with its last agent: one of them knows of all that other CTAs do there.
bool World::outlives_its_visits(std::size_t cta) {
    for (const auto& [component, time] : ctas_[cta].visits) {
        bool known = false;
        for (const Agent& agent : agents_)
            known = known ||
                    (agent.rank * run_.ctas + agent.cta == std::int64_t(cta) && agent.clock.knows({component, time}));
        if (known) continue;
        report_at("check_reuse",
                  fmt::format("CTA {} can end while another one of its cluster arrives at its barriers or loads into "
                              "its shared memory (M = {})",
                              std::int64_t(cta) % run_.ctas, run_.m),
                  "launch", "before the end the loader waits until every slot has been freed");
        return false;
    }
    return true;
}

void World::at_end() {
    bool ended = true;
    for (const Agent& agent : agents_) ended = ended && agent.done();
    if (!ended || !findings_.empty()) return;
    for (std::size_t c = 0; c < ctas_.size(); ++c) {
        if (!outlives_its_visits(c)) return;
        if (ctas_[c].turns.empty()) continue;
        report_at("check_progress",
                  fmt::format("turn {} is passed and never taken (M = {})", *ctas_[c].turns.begin(), run_.m), "launch",
                  "one turn_wait for each turn_pass");
        return;
    }
    for (int r = 0; r < plan_.world; ++r) {
        const RankState& rank = ranks_[r];
        for (const auto& [position, command] : rank.commands) {
            if (command.bytes == 0 || position < rank.waited_position) continue;
            report_at(
                "check_protocol",
                fmt::format("rank {} can leave before its put {} is locally complete (M = {})", r, position, run_.m),
                command.step->where(), "fifo_wait for the last position before the end");
            break;
        }
        for (int flag : rank.awaited_session_flags) entry_signal(r, flag);
        for (std::size_t t = 0; t < plan_.tensors.size(); ++t) {
            const TensorDef& tensor = plan_.tensors[t];
            if (!tensor.output || scattered_.count(tensor.name) != 0) continue;
            std::int64_t elements = 1, columns = rank.outputs[t].columns;
            for (const Expr& extent : tensor.shape) elements *= sizes_[r].value(extent);
            if (columns == 0) columns = std::max<std::int64_t>(sizes_[r].value(tensor.shape.back()), 1);
            const std::string problem = rank.outputs[t].problem(elements / columns, columns);
            if (!problem.empty())
                report_at("check_exactly_once",
                          fmt::format("tensor {} of rank {} at M = {}: {}", tensor.name, r, run_.m, problem),
                          "tensor " + tensor.name, "every element is stored by exactly one tile");
        }
    }
}

}  // namespace plait::interpreter
