// What one simulated rank owns for the life of its cluster: workspace, device state, host lines, FIFO, arrival ring.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/proxy/proxy.h"
#include "runtime/sim/memory.h"
#include "templates/abi/kernel_args.h"

namespace plait {

class SimRankMemory {
public:
    // Address space of a workspace; pages come when they are touched. It never moves.
    static constexpr std::uint64_t kReservedBytes = 8ull << 30;

    SimRankMemory(std::uint64_t fifo_slots, std::uint64_t arrival_slots);
    ~SimRankMemory();
    SimRankMemory(const SimRankMemory&) = delete;
    SimRankMemory& operator=(const SimRankMemory&) = delete;

    void add_regions(SimMemory& memory, int rank, int node, std::uint64_t workspace_bytes);
    void grow_workspace(SimMemory& memory, std::uint64_t bytes);  // ArgumentError beyond kReservedBytes
    void fill(Launch& launch) const;                              // state, host, fifo, arrivals and their sizes
    ProxyRings rings() const;
    std::uint8_t* workspace() const { return workspace_; }
    DeviceState* state() const { return state_.get(); }

private:
    std::uint8_t* workspace_ = nullptr;
    std::unique_ptr<DeviceState> state_;
    std::unique_ptr<HostLines> lines_;
    std::vector<TransferCommand> fifo_;
    std::vector<Arrival> arrivals_;
};

}  // namespace plait
