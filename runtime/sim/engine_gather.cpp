// Row gathers: ordinary accesses that are complete when their group has been waited for.
//
// PTX ISA, "cp.async": performed in the generic proxy, asynchronously; cp.async.wait_group makes the writes of its groups
// visible to the executing thread, and to nobody else. The data is copied at once; who may rely on it is what is checked.
#include <fmt/format.h>

#include <cstring>

#include "runtime/sim/engine.h"

namespace plait {

void Engine::gather_row(SimAgent& agent, u8* destination, const u8* source, u64 bytes, u64 row_bytes) {
    point(agent);
    AsyncGroups& gather = agent.gather;
    if (memory_.find(destination) != agent.cta_state->region)
        throw SimulationFault("outside", agent.fault_actor(), "a row gather writes outside of the CTA's shared memory");
    if (order_.enabled() && gather.writes.none()) {
        gather.reads = stream_epoch(agent, "a row gather's read");
        gather.writes = {local_component(*agent.cta_state, fmt::format("a row gather by agent {}", agent.name)), 0};
    }
    const auto group = static_cast<std::uint32_t>(gather.groups.size());
    order_.access(agent, Lane::Members, Proxy::Generic, Access::Read, {source, bytes, 1, bytes},
                  {gather.reads.component, gather.reads.time + group}, "a row gather's read");
    order_.access(agent, Lane::Members, Proxy::Generic, Access::Write, {destination, row_bytes, 1, row_bytes},
                  {gather.writes.component, gather.writes.time + group}, "a row gather's write");
    ++gather.groups.back().operations;
    std::memcpy(destination, source, bytes);
    std::memset(destination + bytes, 0, row_bytes - bytes);
}

void Engine::gather_commit(SimAgent& agent) {
    point(agent);
    agent.gather.groups.emplace_back();
}

void Engine::gather_wait(SimAgent& agent, u32 pending) {
    point(agent);
    AsyncGroups& gather = agent.gather;
    const std::uint32_t target = gather.committed() > pending ? gather.committed() - pending : 0;
    gather.waited_reads = gather.waited_writes = std::max(gather.waited_writes, target);
    if (!order_.enabled() || gather.writes.none()) return;
    order_.learn_ordinary(agent, {gather.reads.component, gather.reads.time + target});
    order_.learn_ordinary(agent, {gather.writes.component, gather.writes.time + target});
}

}  // namespace plait
