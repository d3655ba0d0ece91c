// Bulk copies: checked when they are issued, done when the seed says.
//
// PTX ISA, cp.async.bulk: a load completes on an mbarrier (complete_tx), copies of one thread are unordered among each
// other; a store belongs to the bulk group that its thread commits next. wait_group.read: sources have been read;
// wait_group: writes are visible to the executing thread.
#include <fmt/format.h>

#include <cstring>

#include "runtime/sim/engine.h"

namespace plait {

// A component of this agent and the time that it had reached at the end of its rank's last launch.
Epoch Engine::stream_epoch(const SimAgent& agent, const char* what) {
    const FaultActor who{agent.rank, agent.cta, agent.name, ""};
    const std::uint32_t component = order_.component(fmt::format("{} by {}", what, who.describe()));
    return {component, ranks_[agent.rank].boundary.global.get(component)};
}

void Engine::bulk_load(SimAgent& agent, Lane lane, const BulkCopy& copy, void* address) {
    point(agent);
    SimCta& cta = *agent.cta_state;
    SimBarrier& barrier = barrier_at(agent, cta, address, "a bulk load");
    if (memory_.find(copy.destination) != cta.region)
        throw SimulationFault("outside", agent.fault_actor(), "a bulk load writes outside of the CTA's shared memory");
    read_source(agent, lane, copy);
    issue_load(agent, lane, copy, cta, barrier);
}

// One read of memory; each CTA is written to at its own time.
void Engine::bulk_multicast(SimAgent& agent, Lane lane, const BulkCopy& copy, void* address, u32 ctas) {
    point(agent);
    read_source(agent, lane, copy);
    for (u32 cta = 0; cta < agent.cta_state->cluster->ctas.size(); ++cta) {
        if ((ctas >> cta & 1) == 0) continue;
        SimCta& peer = peer_of(agent, cta, "a multicast load");
        BulkCopy own = copy;
        own.destination = place_in(agent, peer, copy.destination, "a multicast load");
        SimBarrier& barrier =
            barrier_at(agent, peer, place_in(agent, peer, address, "a multicast load"), "a multicast load");
        issue_load(agent, lane, own, peer, barrier);
    }
}

void Engine::read_source(SimAgent& agent, Lane lane, const BulkCopy& copy) {
    if (order_.enabled()) {
        if (agent.loads.none()) agent.loads = stream_epoch(agent, "a bulk load's read");
        ++agent.loads.time;
    }
    order_.access(agent, lane, Proxy::Async, Access::Read, {copy.source, copy.row_bytes, copy.rows, copy.source_pitch},
                  agent.loads, "a bulk load's read");
}

void Engine::issue_load(SimAgent& agent, Lane lane, const BulkCopy& copy, SimCta& cta, SimBarrier& barrier) {
    if (order_.enabled()) {
        if (!order_.lane_of(agent, lane).known.async.covers(barrier.init))
            throw SimulationFault("barrier", agent.fault_actor(),
                                  "a bulk load completes on a barrier whose barrier_init it is not ordered after",
                                  "fence_barrier_init, then cta_barrier");
    }
    const Epoch write{barrier.local_component, barrier.phase + 1};
    order_.access(agent, lane, Proxy::Async, Access::Write,
                  {copy.destination, copy.box_row_bytes, copy.box_rows, copy.destination_pitch}, write,
                  "a bulk load's write");
    auto operation = std::make_unique<BulkOperation>();
    operation->agent = &agent;
    operation->copy = copy;
    operation->barrier = &barrier;
    operation->target = &cta;
    operation->phase = barrier.phase;
    operation->load = agent.loads;
    copies_.push_back(std::move(operation));
    ++cta.loads_in_flight;
}

void Engine::bulk_store(SimAgent& agent, Lane lane, const BulkCopy& copy) {
    point(agent);
    if (copy.rows == 0 || copy.row_bytes == 0) return;
    SimCta& cta = *agent.cta_state;
    if (memory_.find(copy.source) != cta.region)
        throw SimulationFault("outside", agent.fault_actor(), "a bulk store reads outside of the CTA's shared memory");
    AsyncGroups& bulk = agent.bulk;
    const auto group = static_cast<std::uint32_t>(bulk.groups.size());
    if (order_.enabled() && bulk.writes.none()) {
        bulk.writes = stream_epoch(agent, "a bulk store's write");
        bulk.reads = {local_component(cta, fmt::format("a bulk store by agent {}", agent.name)), 0};
    }
    order_.access(agent, lane, Proxy::Async, Access::Read, {copy.source, copy.row_bytes, copy.rows, copy.source_pitch},
                  {bulk.reads.component, bulk.reads.time + group}, "a bulk store's read");
    order_.access(agent, lane, Proxy::Async, Access::Write,
                  {copy.destination, copy.row_bytes, copy.rows, copy.destination_pitch},
                  {bulk.writes.component, bulk.writes.time + group}, "a bulk store's write");
    AsyncGroups::Group& open = bulk.groups.back();
    ++open.operations;
    ++open.unread;
    ++open.unwritten;
    const int to = memory_.find(copy.destination)->rank;
    if (to != agent.rank) traffic_.count(agent.rank, to, false, copy.rows * copy.row_bytes);
    auto operation = std::make_unique<BulkOperation>();
    operation->agent = &agent;
    operation->copy = copy;
    operation->group = group;
    copies_.push_back(std::move(operation));
}

void Engine::bulk_commit(SimAgent& agent) {
    point(agent);
    agent.bulk.groups.emplace_back();
}

bool Engine::bulk_done(const SimAgent& agent, u32 pending, bool read_only) const {
    const AsyncGroups& bulk = agent.bulk;
    const std::uint32_t target = bulk.committed() > pending ? bulk.committed() - pending : 0;
    for (std::uint32_t group = read_only ? bulk.waited_reads : bulk.waited_writes; group < target; ++group) {
        if (read_only ? bulk.groups[group].unread : bulk.groups[group].unwritten) return false;
    }
    return true;
}

void Engine::bulk_wait(SimAgent& agent, Lane lane, u32 pending, bool read_only) {
    point(agent);
    while (!bulk_done(agent, pending, read_only)) {
        agent.parked = SimAgent::Parked::Bulk;
        agent.pending = pending;
        agent.read_only = read_only;
        scheduler_.park(agent);
    }
    agent.parked = SimAgent::Parked::No;
    AsyncGroups& bulk = agent.bulk;
    const std::uint32_t target = bulk.committed() > pending ? bulk.committed() - pending : 0;
    bulk.waited_reads = std::max(bulk.waited_reads, target);
    if (!read_only) bulk.waited_writes = std::max(bulk.waited_writes, target);
    if (!order_.enabled() || bulk.writes.none() || target == 0) return;
    order_.learn(agent, lane, {bulk.reads.component, bulk.reads.time + target});
    if (!read_only) order_.learn(agent, lane, {bulk.writes.component, bulk.writes.time + target});
}

// One step of one copy: a load at once, a store in two (its source may be free long before its data has landed).
void Engine::run_one(Random& random) {
    ++steps_;
    const std::size_t index = random.below(copies_.size());
    BulkOperation& operation = *copies_[index];
    const BulkCopy& copy = operation.copy;
    if (!operation.barrier && !operation.read) {
        operation.held.resize(copy.rows * copy.row_bytes);
        for (u64 row = 0; row < copy.rows; ++row)
            std::memcpy(operation.held.data() + row * copy.row_bytes, copy.source + row * copy.source_pitch,
                        copy.row_bytes);
        operation.read = true;
        --operation.agent->bulk.groups[operation.group - 1].unread;
        wake_bulk(*operation.agent);
        return;
    }
    std::unique_ptr<BulkOperation> done = std::move(copies_[index]);
    copies_[index] = std::move(copies_.back());
    copies_.pop_back();
    if (done->barrier)
        execute_load(*done);
    else {
        for (u64 row = 0; row < copy.rows; ++row)
            std::memcpy(copy.destination + row * copy.destination_pitch, done->held.data() + row * copy.row_bytes,
                        copy.row_bytes);
        --done->agent->bulk.groups[done->group - 1].unwritten;
        wake_bulk(*done->agent);
    }
}

void Engine::wake_bulk(SimAgent& agent) {
    if (agent.parked == SimAgent::Parked::Bulk && bulk_done(agent, agent.pending, agent.read_only))
        scheduler_.wake(agent);
}

void Engine::execute_load(BulkOperation& operation) {
    const BulkCopy& copy = operation.copy;
    SimBarrier& barrier = *operation.barrier;
    for (u64 row = 0; row < copy.box_rows; ++row) {
        u8* to = copy.destination + row * copy.destination_pitch;
        const u64 bytes = row < copy.rows ? copy.row_bytes : 0;
        if (bytes != 0) std::memcpy(to, copy.source + row * copy.source_pitch, bytes);
        if (bytes != copy.box_row_bytes) std::memset(to + bytes, 0, copy.box_row_bytes - bytes);
    }
    --operation.target->loads_in_flight;
    if (barrier.phase != operation.phase)
        throw SimulationFault(
            "barrier", operation.agent->fault_actor(),
            fmt::format("a bulk load of {} bytes was issued in phase {} of its barrier and completes in phase {}",
                        copy.box_row_bytes * copy.box_rows, operation.phase, barrier.phase),
            "barrier_expect of the right number of bytes comes before the load");
    barrier.bytes -= static_cast<std::int64_t>(copy.box_row_bytes * copy.box_rows);
    if (order_.enabled()) barrier.arriving.raise(operation.load);
    complete_phase(barrier);
}

}  // namespace plait
