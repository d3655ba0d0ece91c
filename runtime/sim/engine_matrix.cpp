// Matrix operations: shared memory and register operands are read and the accumulator is written until the group has
// been waited for.
//
// PTX ISA, wgmma.mma_async: accesses to accumulator and operands before wgmma.wait_group are undefined; wgmma.fence
// orders register accesses before the first wgmma.mma_async and after others touched them. A wait names what it makes
// safe: on sm90 the compiler may move a use of anything else in front of it. It touches what it names (ptxas then puts a
// fence of its own before the next operation, C7519): the next operation needs mma_begin again.
#include <fmt/format.h>

#include "runtime/sim/engine.h"

namespace plait {

RegisterTile& Engine::tile_of(SimAgent& agent, const void* address) {
    for (RegisterTile& tile : agent.tiles) {
        if (tile.address == address) return tile;
    }
    return agent.tiles.emplace_back(RegisterTile{address});
}

// wgmma.fence covers all registers. The accumulator is named, since a compiler may move uses of others across; operands
// are kept in front of it by as_operand.
void Engine::mma_begin(SimAgent& agent, const void* accumulator) {
    point(agent);
    tile_of(agent, accumulator).fenced = true;
    for (RegisterTile& tile : agent.tiles) tile.behind_fence = true;
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
    tile.operand = false;
    tile.group = static_cast<std::uint32_t>(agent.matrix.groups.size());
}

void Engine::mma_operand(SimAgent& agent, const void* operand) {
    RegisterTile& tile = tile_of(agent, operand);
    if (!tile.behind_fence)
        throw SimulationFault("operand", agent.fault_actor(),
                              "a matrix operation reads a register operand that was written since the last fence",
                              "as_operand, then mma_begin, then mma_issue_operand");
    tile.operand = true;
    tile.group = static_cast<std::uint32_t>(agent.matrix.groups.size());
}

void Engine::mma_commit(SimAgent& agent) {
    point(agent);
    agent.matrix.groups.emplace_back();
}

void Engine::mma_wait(SimAgent& agent, u32 pending, std::span<const void* const> named) {
    point(agent);
    const std::uint32_t committed = agent.matrix.committed();
    const std::uint32_t target = committed > pending ? committed - pending : 0;
    for (const void* address : named) {
        RegisterTile& tile = tile_of(agent, address);
        if (tile.group > target)
            throw SimulationFault(tile.operand ? "operand" : "accumulator", agent.fault_actor(),
                                  fmt::format("mma_wait<{}> names a value that matrix group {} of {} still uses", pending,
                                              tile.group, committed),
                                  "mma_commit before it, and fewer pending groups");
        tile.group = 0;
        tile.fenced = tile.behind_fence = false;  // a register access, as ptxas sees it (message C7520)
    }
    if (order_.enabled() && !agent.matrix.reads.none())
        order_.learn(agent, Lane::Members, {agent.matrix.reads.component, target});
}

void Engine::touch(SimAgent& agent, const void* address) {
    RegisterTile& tile = tile_of(agent, address);
    if (tile.group != 0)
        throw SimulationFault(
            tile.operand ? "operand" : "accumulator", agent.fault_actor(),
            tile.operand ? fmt::format("a register operand is written while matrix group {} reads it, or after a wait that "
                                       "did not name it", tile.group)
                         : fmt::format("an accumulator is touched while matrix group {} writes it, or after a wait that did "
                                       "not name it", tile.group),
            "mma_wait that names it before its use");
    tile.fenced = tile.behind_fence = false;
}

}  // namespace plait
