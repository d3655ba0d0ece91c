// Ordinary accesses and words: flags, counters, launch state, and what waits on them.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/sim/engine.h"

namespace plait {

void Engine::access(SimAgent& agent, Lane lane, Proxy proxy, Access access, const AccessRange& range) {
    point(agent);
    const Epoch tag = order_.enabled() ? order_.own_epoch(agent, lane) : Epoch{};
    order_.access(agent, lane, proxy, access, range, tag, access == Access::Read ? "a load" : "a store");
}

u64 Engine::constant_bytes(SimAgent& agent, const void* address) {
    const Region& region = order_.region_of(agent, address, 1, "a load");
    return region.kind == MemoryKind::Input ? region.bytes - region.offset_of(address) : 0;
}

Region& Engine::word_region(const SimActor& actor, const void* address, u64 count, const char* what) const {
    Region& region = order_.region_of(actor, address, count * sizeof(u64), what);
    const char* why = nullptr;
    if (region.offset_of(address) % sizeof(u64) != 0)
        why = "not 8-byte aligned";
    else if (region.kind == MemoryKind::Input || region.kind == MemoryKind::Output)
        why = "a tensor holds no words";
    else if (region.kind == MemoryKind::Shared && (region.rank != actor.rank || region.cta != actor.cta))
        why = "shared memory of another CTA";
    else if (region.kind != MemoryKind::Workspace && region.kind != MemoryKind::Shared && region.rank != actor.rank)
        why = "state of another rank";
    else if (region.node >= 0 && region.node != actor.node)
        why = "memory of another node is reached through the FIFO only";
    if (why)
        throw SimulationFault("outside", actor.fault_actor(),
                              fmt::format("{} at {}: {}", what, region.place(region.offset_of(address)), why));
    return region;
}

void Engine::signal(SimAgent& agent, Lane lane, u64* address, u64 value, Update update, Scope scope, Order order) {
    point(agent);
    Region& region = word_region(agent, address, 1, "a signal");
    *address = update == Update::Set ? value : *address + value;
    if (order == Order::Ordered)
        order_.release_word(agent, lane, address, update, scope);
    else
        order_.relaxed_word(address, update);
    word_changed(region, address);
}

u64 Engine::load(SimAgent& agent, Lane lane, const u64* address, Scope scope, Order order) {
    point(agent);
    word_region(agent, address, 1, "a load of a word");
    if (order == Order::Ordered) order_.acquire_word(agent, lane, address, scope);
    return *address;
}

u64 Engine::fetch_add(SimAgent& agent, Lane lane, u64* address, u64 value, Scope scope, Order order) {
    point(agent);
    Region& region = word_region(agent, address, 1, "a fetch_add");
    const u64 before = *address;
    *address = before + value;
    if (order == Order::Ordered) {
        order_.acquire_word(agent, lane, address, scope);
        order_.release_word(agent, lane, address, Update::Add, scope);
    }
    word_changed(region, address);
    return before;
}

bool Engine::words_reached(const SimAgent& agent) const {
    for (std::uint64_t i = 0; i < agent.word_count; ++i) {
        if (agent.words[i] < agent.word_value) return false;
    }
    return true;
}

bool Engine::aborted(const SimAgent& agent) const {
    const DeviceState* state = ranks_[agent.rank].state;
    return state && state->abort != 0;
}

WaitResult Engine::wait(SimAgent& agent, Lane lane, const u64* first, u64 count, u64 value, Scope scope, Order order,
                        u32 site, u64 deadline_ns) {
    point(agent);
    if (count == 0) return aborted(agent) ? WaitResult::Aborted : WaitResult::Reached;
    Region& region = word_region(agent, first, count, "a wait");
    agent.words = first;
    agent.word_count = count;
    agent.word_value = value;
    agent.site = site;
    if (site < launch_->sites.size()) agent.role = launch_->sites[site].role;
    while (!words_reached(agent) && !aborted(agent) && now_ns_ < deadline_ns) {
        agent.parked = SimAgent::Parked::Words;
        agent.deadline_ns = deadline_ns;
        ranks_[region.rank].watchers.push_back(&agent);
        scheduler_.park(agent);
    }
    agent.parked = SimAgent::Parked::No;
    if (!words_reached(agent)) return aborted(agent) ? WaitResult::Aborted : WaitResult::Expired;
    if (order == Order::Ordered) {
        for (u64 i = 0; i < count; ++i) order_.acquire_word(agent, lane, first + i, scope);
    }
    return WaitResult::Reached;
}

void Engine::idle(SimAgent& agent, u64 deadline_ns) {
    point(agent);
    SimRank& rank = ranks_[agent.rank];
    if (rank.changes == agent.seen_changes && now_ns_ < deadline_ns) {
        agent.parked = SimAgent::Parked::Idle;
        agent.deadline_ns = deadline_ns;
        rank.watchers.push_back(&agent);
        scheduler_.park(agent);
        agent.parked = SimAgent::Parked::No;
    }
    agent.seen_changes = rank.changes;
}

// Nothing can move: the next deadline passes. False where nobody has one.
bool Engine::pass_time() {
    std::uint64_t next = kNoDeadline;
    const auto waits = [](const SimAgent& agent) {
        return agent.parked == SimAgent::Parked::Words || agent.parked == SimAgent::Parked::Idle;
    };
    for (const SimRank& rank : ranks_) {
        for (const SimAgent* agent : rank.watchers) {
            if (waits(*agent)) next = std::min(next, agent->deadline_ns);
        }
    }
    if (next == kNoDeadline) return false;
    if (first_stall_.empty()) first_stall_ = describe_stall();
    now_ns_ = std::max(now_ns_, next);
    for (SimRank& rank : ranks_) {
        std::erase_if(rank.watchers, [&](SimAgent* agent) {
            const bool wake = agent->deadline_ns <= now_ns_;
            if (wake) scheduler_.wake(*agent);
            return wake;
        });
    }
    return true;
}

bool Engine::any_aborted() const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const SimRank& rank) { return rank.state != nullptr && rank.state->abort != 0; });
}

void Engine::word_changed(const Region& region, const void* word) {
    if (region.rank < 0) return;
    SimRank& rank = ranks_[region.rank];
    ++rank.changes;
    const bool abort = rank.state && word == &rank.state->abort;
    if (abort) order_.disable();  // nothing that follows an abort is ordered, and no result of it counts
    auto look = [&](std::vector<SimAgent*>& watchers) {
        std::erase_if(watchers, [&](SimAgent* agent) {
            const bool watched = word >= agent->words && word < agent->words + agent->word_count;
            const bool wake = agent->parked == SimAgent::Parked::Idle || (watched && words_reached(*agent)) ||
                              (abort && agent->rank == region.rank);
            if (wake) scheduler_.wake(*agent);
            return wake;
        });
    };
    if (abort) {
        for (SimRank& other : ranks_) look(other.watchers);
    } else {
        look(rank.watchers);
    }
    if (listener_ && (region.kind == MemoryKind::Lines || region.kind == MemoryKind::Fifo))
        listener_->host_word_changed(region.rank);
}

}  // namespace plait
