// The report of a run in which nothing can move.
#include <fmt/format.h>

#include "runtime/sim/engine.h"

namespace plait {
namespace {

constexpr std::size_t kReportedAgents = 48;

}  // namespace

std::string Engine::describe_parked(const SimAgent& agent) const {
    const FaultActor who{agent.rank, agent.cta, agent.name, ""};
    std::string text = who.describe() + " waits for ";
    switch (agent.parked) {
        case SimAgent::Parked::Words: {
            const Region* region = memory_.find(agent.words);
            std::uint64_t missing = 0;
            while (missing < agent.word_count && agent.words[missing] >= agent.word_value) ++missing;
            const u64* word = agent.words + (missing < agent.word_count ? missing : 0);
            text += region ? region->place(region->offset_of(word)) : "a word that is gone";
            if (agent.site < launch_->sites.size()) {
                const WaitSite& site = launch_->sites[agent.site];
                text = fmt::format("{} (role {}, agent {}, flag {}[+{} of {}])", text, site.role, site.agent, site.flag,
                                   missing, agent.word_count);
            }
            return fmt::format("{}: expected {}, sees {}", text, agent.word_value, *word);
        }
        case SimAgent::Parked::Barrier: {
            const Region* region = memory_.find(agent.barrier);
            for (const SimBarrier& barrier : agent.cta_state->barriers) {
                if (barrier.address != agent.barrier) continue;
                return fmt::format("{}parity {} of the barrier at {}: phase {}, {} of {} arrivals and {} bytes to come",
                                   text, agent.parity, region->place(region->offset_of(agent.barrier)), barrier.phase,
                                   barrier.pending, barrier.arrivals, barrier.bytes);
            }
            return text + "a barrier";
        }
        case SimAgent::Parked::Bulk:
            return text +
                   fmt::format("its bulk groups but {} ({})", agent.pending, agent.read_only ? "reads" : "writes");
        case SimAgent::Parked::CtaBarrier:
            return text + fmt::format("cta_barrier: {} of {} agents are there", agent.cta_state->met,
                                      agent.cta_state->agents.size());
        case SimAgent::Parked::ClusterBarrier:
            return text + fmt::format("cluster_barrier: {} of {} agents are there", agent.cta_state->cluster->met,
                                      agent.cta_state->cluster->ctas.size() * launch_->agents.size());
        case SimAgent::Parked::Turn:
            return text + fmt::format("turn {} to be passed", agent.turn);
        case SimAgent::Parked::Idle:
            return text + "any word of its rank to change (idle)";
        case SimAgent::Parked::Lost:
            return who.describe() + " is lost";
        case SimAgent::Parked::No:
            return who.describe() + " is ready";
    }
    return text;
}

std::string Engine::describe_stall() const {
    std::string text = "nothing can move:";
    std::size_t parked = 0, not_started = 0;
    for (const auto& cta : ctas_) {
        if (!cta->started) ++not_started;
        for (const auto& agent : cta->agents) {
            if (agent->state != Task::State::Parked) continue;
            if (++parked <= kReportedAgents) text += "\n  " + describe_parked(*agent);
        }
    }
    if (parked > kReportedAgents) text += fmt::format("\n  and {} more agents", parked - kReportedAgents);
    if (not_started)
        text += fmt::format("\n  {} of {} CTAs never started: {} of each rank are resident", not_started, ctas_.size(),
                            launch_->resident);
    if (listener_) {
        for (int r = 0; r < world(); ++r) text += "\n  " + listener_->describe_host(r);
    }
    return text;
}

}  // namespace plait
