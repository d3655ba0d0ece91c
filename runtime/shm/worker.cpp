// Rounds over the agents of a thread: who may go on, what ends a wait, what ends a launch that cannot go on.
#include "runtime/shm/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "runtime/base/error.h"

namespace plait {
namespace {

using Clock = ShmAgent::Clock;

constexpr std::uint64_t kSharedAlignment = 1024;  // of HostCta::shared
constexpr std::uint64_t kYieldingRounds = 100;
constexpr std::chrono::microseconds kFirstNap(20), kLongestNap(100);
// After an abort every role runs to its end without waiting on others: who has not moved for so long never will.
constexpr std::chrono::milliseconds kAbortGrace(1000);
// Waits on others end at their deadlines. Past both of them, and this, agents of different CTAs wait for each other.
constexpr std::chrono::milliseconds kBeyondDeadlines(5000);
constexpr std::size_t kReportedAgents = 24;

u64 load_acquire(const u64* word) {
    return std::atomic_ref<u64>(*const_cast<u64*>(word)).load(std::memory_order_acquire);
}

void agent_entry(void* handle) {
    auto* agent = static_cast<ShmAgent*>(handle);
    agent->worker->run_kernel(*agent);
}

}  // namespace

u64 shm_clock_ns() {
    return static_cast<u64>(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
}

ShmWorker::ShmWorker(ShmLaunchState& state, StackPool& stacks, std::uint32_t index, std::uint32_t step)
    : state_(state), launch_(state.launch), stacks_(stacks), last_movement_(Clock::now()) {
    for (std::uint32_t first = index * launch_.cluster; first < launch_.ctas; first += step * launch_.cluster) {
        clusters_.push_back(std::make_unique<ShmCluster>());
        for (std::uint32_t cta = first; cta < first + launch_.cluster; ++cta) {
            ctas_.push_back(std::make_unique<ShmCta>());
            ctas_.back()->cluster = clusters_.back().get();
            clusters_.back()->ctas.push_back(ctas_.back().get());
            start(*ctas_.back(), cta);
        }
    }
}

ShmWorker::~ShmWorker() {
    for (auto& cta : ctas_) {
        for (auto& agent : cta->agents) agent->fiber.release(stacks_);
    }
}

void ShmWorker::start(ShmCta& cta, std::uint32_t index) {
    cta.storage = std::make_unique<std::uint8_t[]>(launch_.shared_bytes + kSharedAlignment);  // zeroed
    const auto address = reinterpret_cast<std::uintptr_t>(cta.storage.get());
    cta.shared = cta.storage.get() + (kSharedAlignment - address % kSharedAlignment) % kSharedAlignment;
    for (std::uint32_t i = 0; i < launch_.agents.size(); ++i) {
        auto agent = std::make_unique<ShmAgent>();
        agent->worker = this;
        agent->cta = &cta;
        agent->view = {index, launch_.ctas, i, cta.shared, agent.get(), &shm_engine_table()};
        agent->fiber.start(stacks_, agent_entry, agent.get());
        cta.agents.push_back(std::move(agent));
        ++unfinished_;
    }
}

void ShmWorker::run_kernel(ShmAgent& agent) {
    launch_.kernel(&agent.view, launch_.args);
    ++moves_;
    --unfinished_;
}

void ShmWorker::run() {
    while (unfinished_ > 0) {
        if (state_.failed.load(std::memory_order_acquire)) return;
        if (round()) {
            quiet_rounds_ = 0;
            continue;
        }
        ++quiet_rounds_;
        if (quiet_rounds_ > kYieldingRounds) check_movement();
        back_off();
    }
}

// One turn of every agent that may go on; true if anything moved.
bool ShmWorker::round() {
    const std::uint64_t before = moves_;
    for (auto& cta : ctas_) {
        for (auto& agent : cta->agents) {
            if (agent->fiber.done() || !may_resume(*agent)) continue;
            agent->fiber.resume();
            if (failure_) std::rethrow_exception(failure_);
        }
    }
    if (moves_ == before) return false;
    state_.moves.fetch_add(moves_ - before, std::memory_order_relaxed);
    return true;
}

bool ShmWorker::may_resume(ShmAgent& agent) {
    switch (agent.parked) {
        case ShmAgent::Parked::No:
        case ShmAgent::Parked::Idle:
            return true;
        case ShmAgent::Parked::Barrier:
            return (agent.barrier->phase & 1) != agent.parity;
        case ShmAgent::Parked::CtaBarrier:
            return agent.cta->meetings != agent.meeting;
        case ShmAgent::Parked::ClusterBarrier:
            return agent.cta->cluster->meetings != agent.meeting;
        case ShmAgent::Parked::Turn:
            return agent.cta->turns[agent.turn];
        case ShmAgent::Parked::Words:
            if (words_reached(agent)) return true;
            if (!aborted() && shm_clock_ns() < agent.deadline_ns) return false;
            agent.result = aborted() ? WaitResult::Aborted : WaitResult::Expired;
            return true;
    }
    return true;
}

// Words only grow, so each is looked at until it is there once; its acquire orders what it announces.
bool ShmWorker::words_reached(ShmAgent& agent) const {
    while (agent.reached < agent.count && load_acquire(agent.words + agent.reached) >= agent.value) ++agent.reached;
    return agent.reached == agent.count;
}

// Raised by an agent that gave up, or by the relay for the host and for peers (templates/launch_watch.h).
bool ShmWorker::aborted() const {
    return std::atomic_ref<u64>(launch_.launch->state->abort).load(std::memory_order_acquire) != 0;
}

// Barriers belong to one cluster: where all its agents stand at one, nobody is left to arrive.
bool ShmWorker::stuck(const ShmCluster& cluster) {
    bool all_done = true;
    for (const ShmCta* cta : cluster.ctas) {
        for (const auto& agent : cta->agents) {
            if (agent->fiber.done()) continue;
            all_done = false;
            const bool at_barrier =
                agent->parked == ShmAgent::Parked::Barrier || agent->parked == ShmAgent::Parked::CtaBarrier ||
                agent->parked == ShmAgent::Parked::ClusterBarrier || agent->parked == ShmAgent::Parked::Turn;
            if (!at_barrier || may_resume(*agent)) return false;
        }
    }
    return !all_done;
}

void ShmWorker::check_movement() {
    for (const auto& cluster : clusters_) {
        if (stuck(*cluster))
            nothing_moves(fmt::format("agents of a {} wait for each other", launch_.cluster == 1 ? "CTA" : "cluster"));
    }
    const std::uint64_t total = state_.moves.load(std::memory_order_relaxed);
    const Clock::time_point now = Clock::now();
    if (total != seen_moves_) {
        seen_moves_ = total;
        last_movement_ = now;
        return;
    }
    const Launch& launch = *launch_.launch;
    const std::chrono::nanoseconds limit =
        aborted() ? std::chrono::nanoseconds(kAbortGrace)
                  : std::chrono::nanoseconds(launch.entry_deadline_ns + launch.wait_deadline_ns) + kBeyondDeadlines;
    const auto quiet = now - last_movement_;
    if (quiet > limit) {
        nothing_moves(fmt::format("nothing has moved for {} ms",
                                  std::chrono::duration_cast<std::chrono::milliseconds>(quiet).count()));
    }
}

void ShmWorker::nothing_moves(const std::string& what) const {
    std::string text = fmt::format("rank {}: {}:", launch_.launch->rank, what);
    std::size_t waiting = 0;
    for (const auto& cta : ctas_) {
        for (const auto& agent : cta->agents) {
            if (agent->fiber.done()) continue;
            if (++waiting <= kReportedAgents) text += "\n  " + describe(*cta, *agent);
        }
    }
    if (waiting > kReportedAgents) text += fmt::format("\n  and {} more agents", waiting - kReportedAgents);
    throw StallError(text, "the kernel is wrong: a simulation of it says why");
}

std::string ShmWorker::describe(const ShmCta& cta, const ShmAgent& agent) const {
    const std::string who = fmt::format("agent {} of CTA {}", launch_.agents[agent.view.agent_index], agent.view.cta);
    switch (agent.parked) {
        case ShmAgent::Parked::Barrier:
            return fmt::format("{} waits for parity {} of the barrier at byte {} of shared memory: phase {}, {} of {} "
                               "arrivals and {} bytes to come",
                               who, agent.parity,
                               static_cast<const std::uint8_t*>(agent.barrier->address) - cta.shared,
                               agent.barrier->phase, agent.barrier->pending, agent.barrier->arrivals,
                               agent.barrier->bytes);
        case ShmAgent::Parked::CtaBarrier:
            return fmt::format("{} waits for cta_barrier: {} of {} agents are there", who, cta.met, cta.agents.size());
        case ShmAgent::Parked::ClusterBarrier:
            return fmt::format("{} waits for cluster_barrier: {} of {} agents are there", who, cta.cluster->met,
                               cta.cluster->ctas.size() * cta.agents.size());
        case ShmAgent::Parked::Turn:
            return fmt::format("{} waits for turn {}", who, agent.turn);
        case ShmAgent::Parked::Words:
            return fmt::format("{} waits at site {} for word {} of {}: expected {}, sees {}", who, agent.site,
                               agent.reached, agent.count, agent.value, load_acquire(agent.words + agent.reached));
        case ShmAgent::Parked::Idle:
            return who + " polls";
        case ShmAgent::Parked::No:
            break;
    }
    return who + " is ready";
}

// Where threads outnumber cores, whoever has something to do gets the core.
void ShmWorker::back_off() {
    if (quiet_rounds_ <= kYieldingRounds) {
        std::this_thread::yield();
        return;
    }
    const std::uint64_t naps = quiet_rounds_ - kYieldingRounds;
    std::this_thread::sleep_for(naps < 8 ? std::min(kFirstNap * static_cast<int>(naps), kLongestNap) : kLongestNap);
}

void ShmWorker::park(ShmAgent& agent, ShmAgent::Parked how) {
    agent.parked = how;
    agent.fiber.suspend();
    agent.parked = ShmAgent::Parked::No;
}

void ShmWorker::fail(ShmAgent& agent, std::exception_ptr failure) {
    failure_ = std::move(failure);
    for (;;) agent.fiber.suspend();
}

}  // namespace plait
