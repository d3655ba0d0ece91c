#include "runtime/sim/rank_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

template <class T>
std::uint8_t* bytes_of(T* object) {
    return reinterpret_cast<std::uint8_t*>(object);
}

}  // namespace

SimRankMemory::SimRankMemory(std::uint64_t fifo_slots, std::uint64_t arrival_slots)
    : state_(std::make_unique<DeviceState>()),
      lines_(std::make_unique<HostLines>()),
      fifo_(fifo_slots),
      arrivals_(arrival_slots) {
    void* memory =
        mmap(nullptr, kReservedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        throw DeviceError(fmt::format("no address space for a workspace of {} bytes", kReservedBytes));
    workspace_ = static_cast<std::uint8_t*>(memory);
}

SimRankMemory::~SimRankMemory() { munmap(workspace_, kReservedBytes); }

void SimRankMemory::add_regions(SimMemory& memory, int rank, int node, std::uint64_t workspace_bytes) {
    memory.add(workspace_, workspace_bytes, MemoryKind::Workspace, rank, "workspace")->node = node;
    memory.add(bytes_of(state_.get()), sizeof(DeviceState), MemoryKind::State, rank, "device state");
    memory.add(bytes_of(lines_.get()), sizeof(HostLines), MemoryKind::Lines, rank, "host lines");
    memory.add(bytes_of(fifo_.data()), fifo_.size() * sizeof(TransferCommand), MemoryKind::Fifo, rank, "fifo");
    memory.add(bytes_of(arrivals_.data()), arrivals_.size() * sizeof(Arrival), MemoryKind::Arrivals, rank,
               "arrival ring");
}

void SimRankMemory::grow_workspace(SimMemory& memory, std::uint64_t bytes) {
    if (bytes > kReservedBytes)
        throw ArgumentError(
            fmt::format("the workspaces would need {} bytes a rank, {} are reserved", bytes, kReservedBytes),
            "compile for a smaller M");
    memory.find(workspace_)->bytes = bytes;
}

void SimRankMemory::fill(Launch& launch) const {
    launch.state = state_.get();
    launch.host = lines_.get();
    launch.fifo = const_cast<TransferCommand*>(fifo_.data());
    launch.arrivals = arrivals_.data();
    launch.fifo_slots = fifo_.size();
    launch.arrival_slots = arrivals_.size();
}

ProxyRings SimRankMemory::rings() const {
    ProxyRings rings;
    rings.fifo = const_cast<TransferCommand*>(fifo_.data());
    rings.fifo_slots = fifo_.size();
    rings.arrivals = const_cast<Arrival*>(arrivals_.data());
    rings.arrival_slots = arrivals_.size();
    rings.lines = lines_.get();
    return rings;
}

}  // namespace plait
