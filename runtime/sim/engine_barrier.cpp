// mbarriers, and the meetings of a CTA's or an agent's threads.
//
// PTX ISA, "mbarrier": a phase completes when its pending arrivals and its tx-count are both zero; test_wait.parity is
// true once the phase of that parity has completed and the next one of the same parity has not.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/sim/engine.h"

namespace plait {
namespace {

// The barrier's 8 bytes in shared memory: a mark that tells it from data, and its index in the CTA.
constexpr u64 kBarrierMark = 0x6261727269ull << 24;
constexpr u64 kBarrierIndexMask = 0xFFFFFF;

}  // namespace

std::uint32_t Engine::local_component(SimCta& cta, std::string what) {
    std::vector<std::string>& components = *cta.cluster->local_components;
    components.push_back(std::move(what));
    return kLocalComponent | static_cast<std::uint32_t>(components.size() - 1);
}

void Engine::barrier_init(SimAgent& agent, void* address, u32 arrivals) {
    point(agent);
    Region& region = order_.region_of(agent, address, sizeof(u64), "barrier_init");
    SimCta& cta = *agent.cta_state;
    if (&region != cta.region || region.offset_of(address) % sizeof(u64) != 0)
        throw SimulationFault("outside", agent.fault_actor(),
                              "barrier_init outside of the CTA's shared memory, or not 8-byte aligned");
    if (arrivals == 0) throw SimulationFault("barrier", agent.fault_actor(), "barrier_init with 0 arrivals");
    SimBarrier& barrier = cta.barriers.emplace_back();
    barrier.address = address;
    barrier.arrivals = barrier.pending = arrivals;
    barrier.local_component = local_component(
        cta, fmt::format("a bulk load that completes on the barrier at byte {}", region.offset_of(address)));
    if (order_.enabled()) barrier.init = order_.own_epoch(agent, Lane::Members);
    *static_cast<u64*>(address) = kBarrierMark | (cta.barriers.size() - 1);
}

SimBarrier& Engine::barrier_at(SimAgent& agent, SimCta& cta, const void* address, const char* what) {
    Region& region = order_.region_of(agent, address, sizeof(u64), what);
    const u64 word = &region == cta.region ? *static_cast<const u64*>(address) : 0;
    const u64 index = word & kBarrierIndexMask;
    if ((word & ~kBarrierIndexMask) != kBarrierMark || index >= cta.barriers.size() ||
        cta.barriers[index].address != address)
        throw SimulationFault(
            "barrier", agent.fault_actor(),
            fmt::format("{} on {}: no initialised barrier there", what, region.place(region.offset_of(address))),
            "barrier_init, fence_barrier_init and cta_barrier come first, in a cluster cluster_barrier");
    SimBarrier& barrier = cta.barriers[index];
    if (order_.enabled() && !agent.lanes[0].known.generic.covers(barrier.init))
        throw SimulationFault("barrier", agent.fault_actor(),
                              fmt::format("{} is not ordered after the barrier_init of {}", what,
                                          region.place(region.offset_of(address))),
                              "cta_barrier between them, in a cluster cluster_barrier");
    return barrier;
}

// CTA `cta` of the agent's cluster.
SimCta& Engine::peer_of(SimAgent& agent, u32 cta, const char* what) {
    const std::vector<SimCta*>& ctas = agent.cta_state->cluster->ctas;
    if (cta >= ctas.size())
        throw SimulationFault("outside", agent.fault_actor(),
                              fmt::format("{} at CTA {} of a cluster of {}", what, cta, ctas.size()));
    if (ctas[cta]->region == nullptr)
        throw SimulationFault("exit_in_flight", agent.fault_actor(),
                              fmt::format("{} at CTA {} of its cluster, which has ended", what, cta),
                              "before the end its loader waits until every slot has been freed");
    return *ctas[cta];
}

u8* Engine::place_in(SimAgent& agent, SimCta& peer, const void* address, const char* what) {
    const Region& own = order_.region_of(agent, address, 1, what);
    if (&own != agent.cta_state->region)
        throw SimulationFault("outside", agent.fault_actor(),
                              fmt::format("{} outside of the CTA's shared memory", what));
    return peer.shared + own.offset_of(address);
}

void Engine::barrier_arrive(SimAgent& agent, Lane lane, void* address, u32 count, u64 bytes) {
    point(agent);
    SimBarrier& barrier = barrier_at(agent, *agent.cta_state, address, "barrier_arrive");
    arrive(agent, *agent.cta_state, barrier, count, bytes);
    order_.release(agent, lane, barrier.arriving);
    complete_phase(barrier);
}

void Engine::cluster_arrive(SimAgent& agent, Lane lane, void* address, u32 cta) {
    point(agent);
    SimCta& peer = peer_of(agent, cta, "cluster_arrive");
    SimBarrier& barrier = barrier_at(agent, peer, place_in(agent, peer, address, "cluster_arrive"), "cluster_arrive");
    arrive(agent, peer, barrier, 1, 0);
    if (&peer == agent.cta_state)
        order_.release(agent, lane, barrier.arriving);
    else
        order_.release_local(agent, lane, barrier.arriving);
    complete_phase(barrier);
}

void Engine::arrive(SimAgent& agent, SimCta& cta, SimBarrier& barrier, u32 count, u64 bytes) {
    if (count > barrier.pending)
        throw SimulationFault(
            "barrier", agent.fault_actor(),
            fmt::format("arrival {} of {} in phase {} of the barrier at {}", barrier.arrivals - barrier.pending + count,
                        barrier.arrivals, barrier.phase, cta.region->place(cta.region->offset_of(barrier.address))),
            "more agents arrive than barrier_init was told");
    barrier.pending -= count;
    barrier.bytes += static_cast<std::int64_t>(bytes);
}

void Engine::complete_phase(SimBarrier& barrier) {
    if (barrier.pending != 0 || barrier.bytes != 0) return;
    ++barrier.phase;
    barrier.pending = barrier.arrivals;
    if (order_.enabled()) {
        std::swap(barrier.completed, barrier.arriving);
        barrier.arriving.clear();
        barrier.completed.raise({barrier.local_component, barrier.phase});
    }
    for (SimAgent* waiter : barrier.waiters) scheduler_.wake(*waiter);
    barrier.waiters.clear();
}

void Engine::barrier_wait(SimAgent& agent, Lane lane, void* address, u32 parity) {
    point(agent);
    SimBarrier& barrier = barrier_at(agent, *agent.cta_state, address, "barrier_wait");
    while ((barrier.phase & 1) == (parity & 1)) {
        agent.parked = SimAgent::Parked::Barrier;
        agent.barrier = address;
        agent.parity = parity & 1;
        barrier.waiters.push_back(&agent);
        scheduler_.park(agent);
    }
    agent.parked = SimAgent::Parked::No;
    order_.acquire(agent, lane, barrier.completed);
}

void Engine::fence_proxy_async(SimAgent& agent, Lane lane) {
    point(agent);
    order_.fence_proxy_async(agent, lane);
}

void Engine::agent_sync(SimAgent& agent) {
    point(agent);
    order_.agent_sync(agent);
}

void Engine::cta_barrier(SimAgent& agent) {
    point(agent);
    SimCta& cta = *agent.cta_state;
    const std::uint32_t meeting = cta.meetings;
    if (++cta.met < cta.agents.size()) {
        while (cta.meetings == meeting) {
            agent.parked = SimAgent::Parked::CtaBarrier;
            scheduler_.park(agent);
        }
        agent.parked = SimAgent::Parked::No;
        return;
    }
    cta.met = 0;
    ++cta.meetings;
    if (order_.enabled()) {
        std::vector<SimActor*> actors;
        for (auto& member : cta.agents) actors.push_back(member.get());
        order_.meet(actors);
    }
    for (auto& member : cta.agents) {
        if (member->parked == SimAgent::Parked::CtaBarrier) scheduler_.wake(*member);
    }
}

// Whoever initialised a barrier knows of it in the async proxy once it has fenced.
void Engine::publish_barriers(const CtaCluster& cluster, const std::vector<SimAgent*>& members) {
    std::vector<Epoch> fenced;
    for (const SimCta* cta : cluster.ctas) {
        for (const SimBarrier& barrier : cta->barriers) {
            const auto knows = [&](const auto& member) { return member->lanes[0].known.async.covers(barrier.init); };
            if (std::any_of(cta->agents.begin(), cta->agents.end(), knows)) fenced.push_back(barrier.init);
        }
    }
    for (SimAgent* member : members) {
        for (const Epoch& init : fenced) order_.learn(*member, Lane::Members, init);
    }
}

void Engine::cluster_barrier(SimAgent& agent) {
    point(agent);
    CtaCluster& cluster = *agent.cta_state->cluster;
    const std::uint32_t meeting = cluster.meetings;
    std::vector<SimAgent*> members;
    for (SimCta* cta : cluster.ctas) {
        for (auto& member : cta->agents) members.push_back(member.get());
    }
    if (++cluster.met < cluster.ctas.size() * launch_->agents.size()) {
        while (cluster.meetings == meeting) {
            agent.parked = SimAgent::Parked::ClusterBarrier;
            scheduler_.park(agent);
        }
        agent.parked = SimAgent::Parked::No;
        return;
    }
    cluster.met = 0;
    ++cluster.meetings;
    if (order_.enabled()) publish_barriers(cluster, members);
    for (SimAgent* member : members) {
        if (member->parked == SimAgent::Parked::ClusterBarrier) scheduler_.wake(*member);
    }
}

// A turn orders who computes and nothing else: what one warpgroup did before it passes, the next one may not rely on.
void Engine::turn_wait(SimAgent& agent, u32 turn) {
    point(agent);
    SimCta& cta = *agent.cta_state;
    if (cta.turns.size() <= turn) cta.turns.resize(turn + 1);
    while (!cta.turns[turn]) {
        agent.parked = SimAgent::Parked::Turn;
        agent.turn = turn;
        scheduler_.park(agent);
    }
    agent.parked = SimAgent::Parked::No;
    cta.turns[turn] = false;
}

// Hardware counts the threads that pass: a second pass before the wait would complete the barrier without it.
void Engine::turn_pass(SimAgent& agent, u32 turn) {
    point(agent);
    SimCta& cta = *agent.cta_state;
    if (cta.turns.size() <= turn) cta.turns.resize(turn + 1);
    if (cta.turns[turn])
        throw SimulationFault("turn", agent.fault_actor(), fmt::format("turn {} is passed twice before it is taken", turn),
                              "pass to the warpgroup that comes next, once for each of its waits");
    cta.turns[turn] = true;
    for (auto& member : cta.agents) {
        if (member->parked == SimAgent::Parked::Turn && member->turn == turn) scheduler_.wake(*member);
    }
}

}  // namespace plait
