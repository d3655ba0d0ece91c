// FIFO, NIC and relay. The network is unordered: a put's signal is published by the receiving host and forwarded by the
// receiver's relay, the longer of the two ways that a signal may take.
#include <fmt/format.h>

#include "compiler/ir/plan_sizes.h"
#include "compiler/verify/interpreter/world.h"
#include "runtime/base/error.h"

namespace plait::interpreter {

World::Result World::execute_fifo(Agent* agent, const Instruction& i) {
    const auto v = [&](std::size_t operand) { return value(*agent, i.operands[operand]); };
    RankState& rank = ranks_[agent->rank];
    switch (i.op) {
        case Op::FifoReserve:
            if (rank.next_position - rank.forwarded >= kFifoSlots) return Result::Blocked;
            agent->clock.merge(rank.forwarded_clock);
            agent->slots[i.slot] = rank.next_position++;
            break;
        case Op::FifoWrite: {
            Command& command = rank.commands[agent->slots[i.slot]];
            command.rank = int(v(0)), command.buffer = i.buffer, command.offset = v(1), command.bytes = v(2),
            command.value = v(4), command.step = &i.step;
            if (command.rank < 0 || command.rank >= plan_.world || v(3) < 0 || v(3) >= i.object_count) {
                throw ScheduleError(fmt::format("{}: put to rank {} with flag {} of {} (M = {})", i.step.where(),
                                                command.rank, v(3), i.object_count, run_.m));
            }
            if (command.rank / plan_.locals == agent->rank / plan_.locals)
                report("check_protocol", fmt::format("fifo_write to rank {} of this node", command.rank), *agent,
                       "ranks of a node put into each other's memory");
            command.flag = i.object + int(v(3));
            break;
        }
        case Op::FifoPublish: {
            const auto found = rank.commands.find(agent->slots[i.slot]);
            if (found == rank.commands.end())
                throw ScheduleError(i.step.where() + ": fifo_publish of a position that was not written");
            found->second.published = true;
            if (i.step.statement->word("scope") == "System") found->second.clock.merge(agent->clock);
            break;
        }
        case Op::FifoWait:
            if (rank.forwarded < v(0)) return Result::Blocked;
            agent->clock.merge(rank.forwarded_clock);
            rank.waited_position = std::max(rank.waited_position, v(0));
            break;
        case Op::RelayDeclare:
            agent->slots[i.slot] = 0;
            break;
        case Op::RelayPoll:
            agent->clock.merge(rank.nic_clock);
            agent->seen_posted = rank.posted, agent->seen_completed = completed(agent->rank),
            agent->seen_finished = rank.finished;
            agent->slots[i.slot] = rank.finished;
            break;
        case Op::RelayTake:
            relay_take(agent, i);
            break;
        case Op::RelayForward:
            rank.forwarded = std::max(rank.forwarded, agent->seen_completed);
            if (i.step.statement->word("scope") != "Cta") rank.forwarded_clock.merge(agent->clock);
            break;
        case Op::RelayIdle: {
            const bool news = rank.posted != agent->seen_posted || completed(agent->rank) != agent->seen_completed ||
                              rank.finished != agent->seen_finished;
            return news ? Result::Next : Result::Blocked;
        }
        default:
            throw InternalError("not a fifo op");
    }
    return Result::Next;
}

void World::relay_take(Agent* agent, const Instruction& i) {
    RankState& rank = ranks_[agent->rank];
    std::size_t take = rank.arrivals.size() - std::size_t(rank.posted - agent->seen_posted);
    for (; take > 0; --take, rank.arrivals.pop_front()) {
        const Arrival& arrival = rank.arrivals.front();
        FlagState& flag = rank.flags[arrival.flag];
        if (arrival.value < flag.value) continue;
        flag.value = arrival.value;
        if (i.step.statement->word("scope") == "Cta") continue;
        flag.clock.merge(agent->clock);
        flag.clock.merge(arrival.clock);
    }
}

// The NIC takes the next published command: reads the source, writes the destination, posts the arrival.
bool World::network_step(int r) {
    RankState& rank = ranks_[r];
    const auto found = rank.commands.find(rank.taken);
    if (found == rank.commands.end() || !found->second.published) return false;
    Command& command = found->second;
    RankState& to = ranks_[command.rank];
    Clock clock = command.clock;
    if (clock.empty()) clock.resize(2 * agents_.size() + 2 * plan_.world);
    if (command.bytes > 0) {
        const std::int64_t last = command.offset + command.bytes;
        check_buffer(clock, r, command.buffer, command.offset, last, fmt::format("the NIC of rank {}", r),
                     command.step->where());
        if (!may_put(clock, r, command.rank) && reported_.insert(command.step->where() + "entered").second) {
            report_at("check_protocol",
                      fmt::format("put into a bank of rank {} that may still be read (M = {})", command.rank, run_.m),
                      command.step->where(), "wait_flag entered[peer] >= epoch - 1 before the first put");
        }
        clock.set(nic_component(r), ++rank.nic_time);
        to.buffers[command.buffer].write(command.offset, last, new_event(nic_component(r), rank.nic_time));
    }
    to.arrivals.push_back({command.flag, command.value, clock});
    to.posted += 1;
    rank.nic_clock.set(nic_component(r), rank.nic_time);
    rank.taken += 1;
    return true;
}

}  // namespace plait::interpreter
