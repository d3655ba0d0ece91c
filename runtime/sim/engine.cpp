// Launches: agents and CTAs come and go here. What agents ask for is in engine_*.cpp.
#include "runtime/sim/engine.h"

#include <fmt/format.h>

#include <cstring>

namespace plait {
namespace {

constexpr std::uint64_t kSharedAlignment = 1024;  // of HostCta::shared

void agent_entry(void* agent) {
    auto* sim_agent = static_cast<SimAgent*>(agent);
    sim_agent->engine->run_agent(*sim_agent);
}

}  // namespace

Engine::Engine(int world, int ranks_per_node, const SimOptions& options)
    : options_(options),
      ranks_per_node_(ranks_per_node),
      random_(options.seed),
      order_(memory_, options.check_memory),
      scheduler_(random_, stacks_),
      ranks_(static_cast<std::size_t>(world)) {
    for (int r = 0; r < world; ++r) ranks_[r].node = r / ranks_per_node;
    scheduler_.add_source(*this);
}

Engine::~Engine() { drop_launch(); }

LaunchReport Engine::run(const EngineLaunch& launch) {
    if (dead_) throw StallError("the simulated cluster is dead: an earlier launch failed", "make a new one");
    dead_ = true;  // until the end is reached
    begin_launch(launch);
    try {
        for (;;) {
            const bool ended = scheduler_.run([this] { return over(); });
            if (ended && !return_lost()) break;
            if (!ended && !pass_time())
                throw StallError(describe_stall(), "a signal is missing, or two agents wait for each other");
        }
        if (!lost_agents_.empty() && !any_aborted())
            throw StallError(fmt::format("rank {} is lost, the others have ended the launch without it", options_.lost.rank));
        end_launch();
    } catch (...) {
        drop_launch();
        throw;
    }
    drop_launch();
    LaunchReport report;
    dead_ = report.aborted = any_aborted();
    report.stall = std::move(first_stall_);
    report.steps = steps_;
    report.events = std::move(events_);
    report.links = traffic_.take();
    return report;
}

void Engine::begin_launch(const EngineLaunch& launch) {
    launch_ = &launch;
    steps_ = 0;
    first_stall_.clear();
    events_.clear();
    scheduler_.draw_policy();
    for (SimRank& rank : ranks_) rank.running = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        for (std::uint32_t c = 0; c < launch.ctas; ++c) {
            auto cta = std::make_unique<SimCta>();
            cta->rank = static_cast<int>(r);
            cta->cta = c;
            if (c % launch.cluster == 0) {
                clusters_.push_back(std::make_unique<CtaCluster>());
                clusters_.back()->local_components = std::make_shared<std::vector<std::string>>();
            }
            cta->cluster = clusters_.back().get();
            cta->cluster->ctas.push_back(cta.get());
            ctas_.push_back(std::move(cta));
        }
    }
    unfinished_ctas_ = living_ctas_ = ctas_.size();
    if (options_.lost.rank >= 0 && options_.lost.rank < world()) living_ctas_ -= launch.ctas;
    lost_returned_ = false;
    start_ctas();
}

// Of a rank that is lost nobody expects that it leaves.
bool Engine::over() const { return unfinished_ctas_ == 0 || (living_ctas_ == 0 && !lost_agents_.empty()); }

bool Engine::return_lost() {
    if (lost_agents_.empty() || !options_.lost.returns) return false;
    lost_returned_ = true;
    for (SimAgent* agent : lost_agents_) {
        agent->parked = SimAgent::Parked::No;
        scheduler_.wake(*agent);
    }
    lost_agents_.clear();
    if (listener_) listener_->host_word_changed(options_.lost.rank);
    return true;
}

// At most `resident` CTAs of a rank run, whole clusters; which ones come first is the seed's choice, as on a GPU it is
// the hardware's.
void Engine::start_ctas() {
    const std::size_t each = launch_->ctas / launch_->cluster;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        while (ranks_[r].running + launch_->cluster <= launch_->resident) {
            std::vector<CtaCluster*> waiting;
            for (std::size_t c = 0; c < each; ++c) {
                CtaCluster* cluster = clusters_[r * each + c].get();
                if (!cluster->ctas.front()->started) waiting.push_back(cluster);
            }
            if (waiting.empty()) break;
            for (SimCta* cta : waiting[random_.below(waiting.size())]->ctas) start_cta(*cta);
        }
    }
}

void Engine::start_cta(SimCta& cta) {
    SimRank& rank = ranks_[cta.rank];
    cta.started = true;
    ++rank.running;
    cta.storage = std::make_unique<std::uint8_t[]>(launch_->shared_bytes + kSharedAlignment);  // zeroed
    const auto address = reinterpret_cast<std::uintptr_t>(cta.storage.get());
    cta.shared = cta.storage.get() + (kSharedAlignment - address % kSharedAlignment) % kSharedAlignment;
    cta.region = memory_.add(cta.shared, launch_->shared_bytes, MemoryKind::Shared, cta.rank, "shared memory",
                             static_cast<int>(cta.cta));
    cta.region->cluster = static_cast<int>(cta.cluster->ctas.front()->cta);
    cta.region->local_components = cta.cluster->local_components;
    for (std::uint32_t i = 0; i < launch_->agents.size(); ++i) {
        auto agent = std::make_unique<SimAgent>();
        agent->engine = this;
        agent->cta_state = &cta;
        agent->index = i;
        agent->rank = cta.rank;
        agent->cta = static_cast<int>(cta.cta);
        agent->cluster = cta.region->cluster;
        agent->node = rank.node;
        agent->name = launch_->agents[i];
        agent->view = {cta.cta, launch_->ctas, i, cta.shared, static_cast<SimAgent*>(agent.get()), &sim_engine_table()};
        if (order_.enabled()) order_.start(*agent, order_.component(agent->fault_actor().describe()), rank.boundary);
        cta.agents.push_back(std::move(agent));
    }
    for (auto& agent : cta.agents) scheduler_.start(*agent, cta.rank == 0, agent_entry, agent.get());
}

void Engine::run_agent(SimAgent& agent) {
    launch_->kernel(&agent.view, launch_->args[agent.rank]);
    std::exception_ptr failure;
    try {
        end_agent(agent);
    } catch (const Error&) {
        failure = std::current_exception();
    }
    if (failure) scheduler_.fail(agent, std::move(failure));
}

// A kernel may not end under its own asynchronous work: shared memory goes to the next CTA, and whoever is told by a
// flag expects the data.
void Engine::end_agent(SimAgent& agent) {
    for (std::size_t group = agent.bulk.waited_writes; group < agent.bulk.groups.size(); ++group) {
        if (agent.bulk.groups[group].operations == 0) continue;
        throw SimulationFault("exit_in_flight", agent.fault_actor(),
                              fmt::format("ends with bulk group {} not waited for ({} committed, {} waited for)",
                                          group + 1, agent.bulk.committed(), agent.bulk.waited_writes),
                              "bulk_wait<0> before the end");
    }
    for (std::size_t group = agent.gather.waited_writes; group < agent.gather.groups.size(); ++group) {
        if (agent.gather.groups[group].operations == 0) continue;
        throw SimulationFault("exit_in_flight", agent.fault_actor(),
                              fmt::format("ends with row gather group {} not waited for", group + 1),
                              "gather_wait<0> before the end");
    }
    for (const RegisterTile& tile : agent.tiles) {
        if (tile.group != 0)
            throw SimulationFault("exit_in_flight", agent.fault_actor(), "ends with a matrix operation in flight",
                                  "mma_wait<0> before the end");
    }
    if (order_.enabled()) {
        Clock& boundary = ranks_[agent.rank].boundary.global;
        for (const SimLane& lane : agent.lanes) boundary.join(lane.known.generic.global);
        if (!agent.bulk.writes.none())
            boundary.raise(agent.bulk.writes.component, agent.bulk.writes.time + agent.bulk.committed() + 1);
        if (!agent.loads.none()) boundary.raise(agent.loads.component, agent.loads.time);
        if (!agent.gather.reads.none())
            boundary.raise(agent.gather.reads.component, agent.gather.reads.time + agent.gather.committed() + 1);
    }
    SimCta& cta = *agent.cta_state;
    if (++cta.finished == cta.agents.size()) end_cta(cta);
}

void Engine::end_cta(SimCta& cta) {
    if (cta.loads_in_flight != 0)
        throw SimulationFault(
            "exit_in_flight", {cta.rank, static_cast<int>(cta.cta), "all agents", ""},
            fmt::format("the CTA ends with {} bulk loads into its shared memory in flight", cta.loads_in_flight),
            "wait for every barrier that loads complete on");
    memory_.remove(cta.region);
    cta.region = nullptr;
    --unfinished_ctas_;
    if (cta.rank != options_.lost.rank) --living_ctas_;
    if (--ranks_[cta.rank].running == 0) check_puts_complete(cta.rank);
    if (unfinished_ctas_ > 0 && launch_->resident < launch_->ctas) start_ctas();
}

// A kernel leaves only after every put that it asked its proxy for is locally complete, and knows it: the caller may
// free or grow what the NIC would still read.
void Engine::check_puts_complete(int rank) {
    const DeviceState* state = ranks_[rank].state;
    if (state == nullptr || state->abort != 0 || state->fifo_completed >= state->fifo_next) return;
    throw SimulationFault("exit_in_flight", {rank, 0, "all agents", ""},
                          fmt::format("the kernel ends with {} of {} FIFO commands known to be complete",
                                      state->fifo_completed, state->fifo_next),
                          "fifo_wait for the last position before the end");
}

void Engine::end_launch() {
    if (!lost_agents_.empty()) return;
    for (const auto& region : memory_.regions()) {
        if (region->kind == MemoryKind::Shared)
            throw InternalError("shared memory of an ended CTA is still registered");
    }
}

void Engine::drop_launch() {
    for (auto& cta : ctas_) {
        for (auto& agent : cta->agents) scheduler_.forget(*agent);
        if (cta->region) memory_.remove(cta->region);
    }
    scheduler_.clear();
    ctas_.clear();
    clusters_.clear();
    lost_agents_.clear();
    copies_.clear();
    for (SimRank& rank : ranks_) rank.watchers.clear();
    launch_ = nullptr;
}

void Engine::point(SimAgent& agent) {
    ++steps_;
    if (options_.max_steps != 0 && steps_ > options_.max_steps)
        throw StallError(fmt::format("the launch is not over after {} steps", options_.max_steps),
                         "raise max_steps, or look for a polling loop");
    if (lost(agent.rank)) {
        agent.parked = SimAgent::Parked::Lost;
        lost_agents_.push_back(&agent);
        scheduler_.park(agent);
    }
    if (scheduler_.wants_switch()) scheduler_.yield(agent);
}

void Engine::trace(SimAgent& agent, u32 kind, i64 value) {
    if (!options_.trace) return;
    events_.push_back({static_cast<std::uint32_t>(agent.rank), static_cast<std::uint32_t>(agent.cta), agent.index, kind,
                       value, steps_});
}

// A slot that is asked for more than it has gets new memory; the old one stays valid too.
void* Engine::registers(SimAgent& agent, u64 bytes, u32 slot) {
    constexpr std::uint64_t kAlignment = 64;
    for (const RegisterMemory& held : agent.registers) {
        if (held.slot != slot || held.bytes < bytes) continue;
        return held.storage.get() +
               (kAlignment - reinterpret_cast<std::uintptr_t>(held.storage.get()) % kAlignment) % kAlignment;
    }
    agent.registers.push_back({slot, bytes, std::make_unique_for_overwrite<std::uint8_t[]>(bytes + kAlignment)});
    return registers(agent, bytes, slot);
}

}  // namespace plait
