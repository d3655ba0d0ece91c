// Every byte that a simulated kernel may touch, by region. An access outside of all of them is a fault.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/sim/shadow.h"

namespace plait {

enum class MemoryKind { Input, Output, Workspace, State, Lines, Fifo, Arrivals, Shared };

struct Region {
    std::uint8_t* begin = nullptr;
    std::uint64_t bytes = 0;
    MemoryKind kind = MemoryKind::Input;
    int rank = -1;  // -1: an input that several ranks were given
    int cta = -1;   // Shared only
    int cluster = -1;  // Shared only: first CTA of the thread block cluster that can address it
    int node = -1;  // Workspace: who can address it
    std::string name;
    Shadow shadow{false};
    std::shared_ptr<std::vector<std::string>> local_components;  // Shared only: what local clock components stand for

    std::uint64_t offset_of(const void* address) const {
        return static_cast<std::uint64_t>(static_cast<const std::uint8_t*>(address) - begin);
    }
    std::string place(std::uint64_t offset) const;  // workspace of rank 1, byte 4096
};

class SimMemory {
public:
    // ArgumentError where it overlaps a region, unless both are inputs: they become one region.
    Region* add(std::uint8_t* begin, std::uint64_t bytes, MemoryKind kind, int rank, const std::string& name,
                int cta = -1);
    void remove(const Region* region);
    Region* find(const void* address) const;  // nullptr outside of all
    const std::vector<std::unique_ptr<Region>>& regions() const { return regions_; }

private:
    std::vector<std::unique_ptr<Region>> regions_;  // by address
};

}  // namespace plait
