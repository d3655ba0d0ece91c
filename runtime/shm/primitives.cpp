// What agents ask for. A cluster's barriers and shared memory are its thread's own; words are everybody's.
#include <fmt/format.h>

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/shm/worker.h"

namespace plait {
namespace {

constexpr u64 kBarrierMark = 0x7368626172ull << 24;
constexpr u64 kBarrierIndexMask = 0xFFFFFF;

}  // namespace

u64 ShmWorker::constant_bytes(const void* address) const {
    const auto* byte = static_cast<const unsigned char*>(address);
    for (const ShmLaunch::Range& input : launch_.inputs) {
        if (byte >= input.first && byte < input.first + input.bytes)
            return static_cast<u64>(input.first + input.bytes - byte);
    }
    return 0;
}

// mbarriers. PTX ISA, "mbarrier": a phase completes when its pending arrivals and its tx-count are both zero.
void ShmWorker::barrier_init(ShmAgent& agent, void* address, u32 arrivals) {
    ShmBarrier& barrier = agent.cta->barriers.emplace_back();
    barrier.address = address;
    barrier.arrivals = barrier.pending = arrivals;
    *static_cast<u64*>(address) = kBarrierMark | (agent.cta->barriers.size() - 1);
}

ShmBarrier& ShmWorker::barrier_at(ShmAgent& agent, ShmCta& cta, const void* address) const {
    const u64 word = *static_cast<const u64*>(address);
    const u64 index = word & kBarrierIndexMask;
    if ((word & ~kBarrierIndexMask) != kBarrierMark || index >= cta.barriers.size() ||
        cta.barriers[index].address != address) {
        throw InternalError(fmt::format("agent {} of CTA {}: no initialised barrier at byte {} of shared memory",
                                        launch_.agents[agent.view.agent_index], agent.view.cta,
                                        static_cast<const std::uint8_t*>(address) - cta.shared));
    }
    return cta.barriers[index];
}

void ShmWorker::complete_phase(ShmBarrier& barrier) {
    if (barrier.pending != 0 || barrier.bytes != 0) return;
    ++barrier.phase;
    barrier.pending = barrier.arrivals;
}

void ShmWorker::barrier_arrive(ShmAgent& agent, void* address, u32 count, u64 bytes) {
    arrive(agent, barrier_at(agent, *agent.cta, address), count, bytes);
}

void ShmWorker::cluster_arrive(ShmAgent& agent, void* address, u32 cta) {
    ShmCta& peer = *agent.cta->cluster->ctas.at(cta);
    arrive(agent, barrier_at(agent, peer, peer.shared + (static_cast<std::uint8_t*>(address) - agent.cta->shared)), 1,
           0);
}

void ShmWorker::arrive(ShmAgent& agent, ShmBarrier& barrier, u32 count, u64 bytes) {
    if (count > barrier.pending) {
        throw InternalError(fmt::format("agent {} of CTA {}: arrival {} of {} at a barrier",
                                        launch_.agents[agent.view.agent_index], agent.view.cta,
                                        barrier.arrivals - barrier.pending + count, barrier.arrivals));
    }
    barrier.pending -= count;
    barrier.bytes += static_cast<std::int64_t>(bytes);
    ++moves_;
    complete_phase(barrier);
}

void ShmWorker::barrier_wait(ShmAgent& agent, void* address, u32 parity) {
    const ShmBarrier& barrier = barrier_at(agent, *agent.cta, address);
    if ((barrier.phase & 1) != (parity & 1)) return;
    agent.barrier = &barrier;
    agent.parity = parity & 1;
    park(agent, ShmAgent::Parked::Barrier);
    ++moves_;
}

void ShmWorker::bulk_load(ShmAgent& agent, const BulkCopy& copy, void* address) {
    load(copy, barrier_at(agent, *agent.cta, address));
}

void ShmWorker::bulk_multicast(ShmAgent& agent, const BulkCopy& copy, void* address, u32 ctas) {
    const std::vector<ShmCta*>& peers = agent.cta->cluster->ctas;
    for (std::size_t cta = 0; cta < peers.size(); ++cta) {
        if ((ctas >> cta & 1) == 0) continue;
        ShmCta& peer = *peers[cta];
        BulkCopy own = copy;
        own.destination = peer.shared + (copy.destination - agent.cta->shared);
        load(own, barrier_at(agent, peer, peer.shared + (static_cast<std::uint8_t*>(address) - agent.cta->shared)));
    }
}

void ShmWorker::load(const BulkCopy& copy, ShmBarrier& barrier) {
    for (u64 row = 0; row < copy.box_rows; ++row) {
        u8* to = copy.destination + row * copy.destination_pitch;
        const u64 bytes = row < copy.rows ? copy.row_bytes : 0;
        if (bytes != 0) std::memcpy(to, copy.source + row * copy.source_pitch, bytes);
        if (bytes != copy.box_row_bytes) std::memset(to + bytes, 0, copy.box_row_bytes - bytes);
    }
    barrier.bytes -= static_cast<std::int64_t>(copy.box_row_bytes * copy.box_rows);
    ++moves_;
    complete_phase(barrier);
}

void ShmWorker::bulk_store(const BulkCopy& copy) {
    for (u64 row = 0; row < copy.rows; ++row)
        std::memcpy(copy.destination + row * copy.destination_pitch, copy.source + row * copy.source_pitch,
                    copy.row_bytes);
}

void ShmWorker::cta_barrier(ShmAgent& agent) {
    ShmCta& cta = *agent.cta;
    ++moves_;
    agent.meeting = cta.meetings;
    if (++cta.met < cta.agents.size()) {
        park(agent, ShmAgent::Parked::CtaBarrier);
        return;
    }
    cta.met = 0;
    ++cta.meetings;
}

void ShmWorker::cluster_barrier(ShmAgent& agent) {
    ShmCluster& cluster = *agent.cta->cluster;
    ++moves_;
    agent.meeting = cluster.meetings;
    if (++cluster.met < cluster.ctas.size() * agent.cta->agents.size()) {
        park(agent, ShmAgent::Parked::ClusterBarrier);
        return;
    }
    cluster.met = 0;
    ++cluster.meetings;
}

void ShmWorker::turn_wait(ShmAgent& agent, u32 turn) {
    std::vector<bool>& turns = agent.cta->turns;
    if (turns.size() <= turn) turns.resize(turn + 1);
    agent.turn = turn;
    if (!turns[turn]) park(agent, ShmAgent::Parked::Turn);
    turns[turn] = false;
    ++moves_;
}

void ShmWorker::turn_pass(ShmAgent& agent, u32 turn) {
    std::vector<bool>& turns = agent.cta->turns;
    if (turns.size() <= turn) turns.resize(turn + 1);
    turns[turn] = true;
    ++moves_;
}

void ShmWorker::signal(u64* address, u64 value, Update update, Order order) {
    const std::atomic_ref<u64> word(*address);
    const std::memory_order how = order == Order::Ordered ? std::memory_order_release : std::memory_order_relaxed;
    if (update == Update::Set)
        word.store(value, how);
    else
        word.fetch_add(value, how);
    ++moves_;
}

u64 ShmWorker::fetch_add(u64* address, u64 value, Order order) {
    ++moves_;
    return std::atomic_ref<u64>(*address).fetch_add(
        value, order == Order::Ordered ? std::memory_order_acq_rel : std::memory_order_relaxed);
}

// Acquires whatever the caller's order: a plain load where it matters. A wait that expires and begins again, which a
// deadline that has moved asks for, is no movement.
WaitResult ShmWorker::wait(ShmAgent& agent, const u64* first, u64 count, u64 value, u32 site, u64 deadline_ns) {
    if (count == 0) return aborted() ? WaitResult::Aborted : WaitResult::Reached;
    agent.words = first;
    agent.count = count;
    agent.reached = 0;
    agent.value = value;
    agent.site = site;
    agent.result = WaitResult::Reached;
    agent.deadline_ns = deadline_ns;
    if (!words_reached(agent)) park(agent, ShmAgent::Parked::Words);
    if (agent.result != WaitResult::Expired) ++moves_;
    return agent.result;
}

// A polling agent looks again in the next round, whatever its deadline.
void ShmWorker::idle(ShmAgent& agent) { park(agent, ShmAgent::Parked::Idle); }

// A slot that is asked for more than it has gets new memory; the old one stays valid too.
void* ShmWorker::registers(ShmAgent& agent, u64 bytes, u32 slot) {
    constexpr std::uint64_t kAlignment = 64;
    for (const ShmAgent::Registers& held : agent.registers) {
        if (held.slot != slot || held.bytes < bytes) continue;
        return held.storage.get() +
               (kAlignment - reinterpret_cast<std::uintptr_t>(held.storage.get()) % kAlignment) % kAlignment;
    }
    agent.registers.push_back({slot, bytes, std::make_unique_for_overwrite<std::uint8_t[]>(bytes + kAlignment)});
    return registers(agent, bytes, slot);
}

}  // namespace plait
