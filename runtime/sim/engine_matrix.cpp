// Matrix operations: shared memory is read and the accumulator written until the group has been waited for.
//
// PTX ISA, wgmma.mma_async: accesses to the accumulator and to shared memory operands before wgmma.wait_group are
// undefined; wgmma.fence orders register accesses before the first wgmma.mma_async and after others touched them.
// A wait names the accumulators that it makes safe, and a compiler may touch there what is named (ptxas then puts a
// fence of its own before the next operation, C7519): the next operation needs mma_begin again.
#include <fmt/format.h>

#include "runtime/sim/engine.h"

namespace plait {

RegisterTile& Engine::tile_of(SimAgent& agent, const void* accumulator) {
    for (RegisterTile& tile : agent.tiles) {
        if (tile.accumulator == accumulator) return tile;
    }
    return agent.tiles.emplace_back(RegisterTile{accumulator, 0, false});
}

void Engine::mma_begin(SimAgent& agent, const void* accumulator) {
    point(agent);
    tile_of(agent, accumulator).fenced = true;
}

void Engine::mma_read(SimAgent& agent, const AccessRange& range) {
    point(agent);
    AsyncGroups& matrix = agent.matrix;
    const auto group = static_cast<std::uint32_t>(matrix.groups.size());
    if (order_.enabled() && matrix.reads.none())
        matrix.reads = {local_component(*agent.cta_state, fmt::format("a matrix operation of agent {}", agent.name)),
                        0};
    order_.access(agent, Lane::Members, Proxy::Async, Access::Read, range, {matrix.reads.component, group},
                  "a matrix operation's read");
    ++matrix.groups.back().operations;
}

void Engine::mma_write(SimAgent& agent, const void* accumulator) {
    RegisterTile& tile = tile_of(agent, accumulator);
    if (!tile.fenced)
        throw SimulationFault("accumulator", agent.fault_actor(),
                              "a matrix operation is issued on an accumulator that was touched since the last fence",
                              "mma_begin before the first mma_issue");
    tile.group = static_cast<std::uint32_t>(agent.matrix.groups.size());
}

void Engine::mma_commit(SimAgent& agent) {
    point(agent);
    agent.matrix.groups.emplace_back();
}

void Engine::mma_wait(SimAgent& agent, u32 pending) {
    point(agent);
    const std::uint32_t committed = agent.matrix.committed();
    const std::uint32_t target = committed > pending ? committed - pending : 0;
    for (RegisterTile& tile : agent.tiles) {
        if (tile.group <= target) tile.group = 0;
        tile.fenced = false;
        tile.fenced = false;  // the wait names the accumulators: a register access, as ptxas sees it (message C7520)
    }
    if (order_.enabled() && !agent.matrix.reads.none())
        order_.learn(agent, Lane::Members, {agent.matrix.reads.component, target});
}

void Engine::touch(SimAgent& agent, const void* accumulator) {
    RegisterTile& tile = tile_of(agent, accumulator);
    if (tile.group != 0)
        throw SimulationFault("accumulator", agent.fault_actor(),
                              fmt::format("an accumulator is touched while matrix group {} writes it", tile.group),
                              "mma_wait before its use");
    tile.fenced = false;
}

}  // namespace plait
