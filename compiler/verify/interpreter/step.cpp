// One instruction of an agent.
#include <fmt/format.h>

#include <utility>

#include "compiler/ir/plan_sizes.h"
#include "compiler/verify/interpreter/world.h"
#include "runtime/base/error.h"

namespace plait::interpreter {
namespace {

int reach(const Statement& s) { return s.word("scope") == "System" ? 2 : s.word("scope") == "Gpu" ? 1 : 0; }

}  // namespace

World::Result World::execute(Agent* agent, const Instruction& i) {
    const auto v = [&](std::size_t operand) { return value(*agent, i.operands[operand]); };
    CtaState& cta = ctas_[agent->rank * run_.ctas + agent->cta];
    RankState& rank = ranks_[agent->rank];
    agent->clock.set(std::uint32_t(agent->id), agent->time);
    switch (i.op) {
        case Op::Pipe:
            agent->slots[i.slot] = agent->slots[i.slot + Code::kPhase] = 0;
            break;
        case Op::Advance:
            if (++agent->slots[i.slot] == v(0)) agent->slots[i.slot] = 0, agent->slots[i.slot + Code::kPhase] ^= 1;
            break;
        case Op::Enter:
            agent->slots[i.slot] = kEpoch;
            break;
        case Op::FetchTile:
            agent->slots[i.slot] = rank.next_tile++;
            break;
        case Op::LoadValue:
            agent->slots[i.slot] = promised_value(*agent, i, v(0), v(1), v(2));
            break;
        case Op::RingPut: {
            SharedSlot* slot = shared(agent, i);
            overwrite(agent, slot, now(agent), i);
            slot->value = v(0);
            break;
        }
        case Op::RingGet: {
            SharedSlot* slot = shared(agent, i);
            read(agent, slot, now(agent), i);
            agent->slots[i.slot] = slot->value;
            break;
        }
        case Op::BarrierWait: {
            BarrierState& barrier = cta.barriers[element(agent, i, i.object, i.object_count, i.index, "a barrier")];
            if ((barrier.phase & 1) == v(0)) return Result::Blocked;
            agent->clock.merge(barrier.completed);
            break;
        }
        case Op::BarrierArrive:
        case Op::ClusterArrive:
            barrier_arrive(agent, i);
            break;
        case Op::BarrierExpect:
            barrier_expect(agent, i);
            break;
        case Op::TurnWait:
            if (cta.turns.erase(v(0)) == 0) return Result::Blocked;
            break;
        case Op::TurnPass:
            if (!cta.turns.insert(v(0)).second)
                report("check_progress", fmt::format("turn {} is passed twice before it is taken", v(0)), *agent,
                       "pass to the warpgroup that comes next, once for each of its waits");
            break;
        case Op::AgentFinished:
            rank.finished += 1;
            break;
        case Op::SignalSet:
            signal(agent, i, false);
            break;
        case Op::SignalAdd:
            signal(agent, i, true);
            break;
        case Op::WaitFlag:
            return wait_flags(agent, i, v(0), 1, v(1));
        case Op::WaitFlags:
            return wait_flags(agent, i, v(0), v(1), v(2));
        case Op::FifoReserve:
        case Op::FifoWrite:
        case Op::FifoPublish:
        case Op::FifoWait:
        case Op::RelayDeclare:
        case Op::RelayPoll:
        case Op::RelayTake:
        case Op::RelayForward:
        case Op::RelayIdle:
            return execute_fifo(agent, i);
        default:
            execute_copy(agent, i);
            break;
    }
    return Result::Next;
}

int World::first_of_cluster(const Agent& agent, std::int64_t ctas) const {
    const int first = agent.cta / int(ctas) * int(ctas);
    if (ctas == cluster_ctas(plan_) || ctas == 1) return first;
    throw ScheduleError(fmt::format("an operation of {} CTAs in a cluster of {}", ctas, cluster_ctas(plan_)));
}

void World::visit(const Agent& agent, int cta, const Event& event) {
    if (cta != agent.cta) ctas_[agent.rank * run_.ctas + cta].visits[event.component] = event.time;
}

void World::barrier_arrive(Agent* agent, const Instruction& i) {
    const int object = element(agent, i, i.object, i.object_count, i.index, "a barrier");
    const int ctas = i.op == Op::ClusterArrive ? int(value(*agent, i.operands[0])) : 1,
              first = first_of_cluster(*agent, ctas);
    check_release(agent, i, value(*agent, i.index));
    agent->clock.set(std::uint32_t(agent->id), ++agent->time);
    for (int cta = first; cta < first + ctas; ++cta) {
        visit(*agent, cta, {std::uint32_t(agent->id), agent->time});
        BarrierState& barrier = ctas_[agent->rank * run_.ctas + cta].barriers[object];
        barrier.arriving.merge(agent->clock);
        barrier.arrivals += 1;
        barrier_complete(&barrier, object);
    }
}

// An arrival that comes before the phase before has counted all its bytes would be counted into that one.
void World::barrier_expect(Agent* agent, const Instruction& i) {
    const int object = element(agent, i, i.object, i.object_count, i.index, "a barrier");
    BarrierState& barrier = ctas_[agent->rank * run_.ctas + agent->cta].barriers[object];
    for (const Event& load : barrier.last_loads) {
        if (agent->clock.knows(load)) continue;
        report("check_barriers",
               fmt::format("barrier_expect on {} whose phase before may still count bytes",
                           i.step.statement->expr("bar").print()),
               *agent, "wait until the slot is free, then expect");
    }
    barrier.bytes += value(*agent, i.operands[0]);
    barrier.arrivals += 1;
    barrier_complete(&barrier, object);
}

void World::barrier_complete(BarrierState* barrier, int object) {
    int array = 0;
    while (array + 1 < int(code_.first_barrier.size()) && code_.first_barrier[array + 1] <= object) ++array;
    const BarrierDef& definition = plan_.barriers[array];
    if (barrier->arrivals < definition.thread_arrivals + definition.warpgroup_arrivals || barrier->bytes != 0) return;
    barrier->arrivals = 0;
    barrier->phase += 1;
    barrier->completed.merge(barrier->arriving);
    barrier->arriving = Clock();
    barrier->last_loads = std::exchange(barrier->loads, {});
}

World::Result World::wait_flags(Agent* agent, const Instruction& i, std::int64_t index, std::int64_t count,
                                std::int64_t expected) {
    if (index < 0 || count < 0 || index + count > i.object_count) {
        throw ScheduleError(fmt::format("{}: flags [{}, {}) of {} with {} entries (M = {})", i.step.where(), index,
                                        index + count, i.step.statement->word("flag"), i.object_count, run_.m));
    }
    std::vector<FlagState>& flags = ranks_[agent->rank].flags;
    for (std::int64_t n = index; n < index + count; ++n) {
        if (flags[i.object + n].value < expected) return Result::Blocked;
    }
    bool session = false;
    for (std::size_t f = 0; f < plan_.flags.size(); ++f)
        session = session || (plan_.flags[f].session && code_.first_flag[f] == i.object);
    for (std::int64_t n = index; n < index + count; ++n) {
        const FlagState& flag = flags[i.object + n];
        if (reach(*i.step.statement) >= flag.reach) agent->clock.merge(flag.clock);
        if (session) ranks_[agent->rank].awaited_session_flags.insert(i.object + int(n));
    }
    return Result::Next;
}

void World::signal(Agent* agent, const Instruction& i, bool add) {
    const std::int64_t peer = value(*agent, i.operands[0]), index = value(*agent, i.operands[1]),
                       set = value(*agent, i.operands[2]);
    if (peer < 0 || peer >= plan_.locals || index < 0 || index >= i.object_count) {
        throw ScheduleError(fmt::format("{}: flag {} of local rank {}, there are {} flags and {} local ranks (M = {})",
                                        i.step.where(), index, peer, i.object_count, plan_.locals, run_.m));
    }
    const int to = agent->rank / int(plan_.locals) * int(plan_.locals) + int(peer);
    FlagState& flag = ranks_[to].flags[i.object + index];
    const std::int64_t next = add ? flag.value + set : set;
    if (next < flag.value)
        report("check_protocol",
               fmt::format("{} takes flag {}[{}] back from {} to {}", op_spec(i.op).mnemonic,
                           i.step.statement->word("flag"), index, flag.value, next),
               *agent, "flags only grow");
    flag.value = next;
    const int needed = to == agent->rank ? 1 : 2;
    flag.reach = std::max(flag.reach, needed);
    if (reach(*i.step.statement) >= needed) flag.clock.merge(agent->clock);
}

}  // namespace plait::interpreter
