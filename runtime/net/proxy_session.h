// ProxySession: what a proxy drives to move bytes between nodes. loopback, ibverbs (RC) and efa (SRD) implement it.
//
// Contract, the same for all: when a signal is visible to a waiter on the destination, the payload that it announces is
// visible too. How a session keeps it is its own affair: RC posts payload and flag on one queue pair, flag in the
// payload's memory; SRD writes with immediate and the receiving side publishes (Arrival).
//
// Threading: one thread (or the simulator) owns a session and calls everything below. Nothing blocks.
// Failures throw TransportError naming rank, peer, NIC, queue pair and status; the session is then dead.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "templates/abi/transfer_command.h"

namespace plait {

enum class NetworkContract { Ordered, Unordered };  // RC-like, SRD-like

// One transfer, as the FIFO record asked for it. `id` comes back in completions.
struct PutRequest {
    std::uint64_t id = 0;
    std::uint32_t destination_rank = 0;
    std::uint64_t source_offset = 0, destination_offset = 0, bytes = 0;
    std::uint64_t signal_offset = 0, signal_value = 0;
};

struct SessionCounters {
    std::uint64_t posted = 0, completed = 0, bytes = 0, queue_full = 0, arrivals = 0;
};

class ProxySession {
public:
    virtual ~ProxySession() = default;
    // False where a queue is full: nothing was posted, try again after step(). A transfer of 0 bytes is a signal alone.
    virtual bool try_post(const PutRequest& request) = 0;
    // Makes progress; appends the ids whose source may be overwritten (each id once, order free) and the arrivals that
    // this side has to publish (none on transports that write the flag themselves). Returns true if anything happened.
    virtual bool step(std::vector<std::uint64_t>* completed, std::vector<Arrival>* arrivals) = 0;
    virtual SessionCounters counters() const = 0;
    virtual std::string describe() const = 0;  // "loopback ordered, rank 2, nic loop0"
};

// How the host reads and writes memory that kernels share with it. The simulator's port declares each access to the
// engine; the real one uses std::atomic_ref and memcpy.
class MemoryPort {
public:
    virtual ~MemoryPort() = default;
    virtual u64 load_acquire(const u64* word) = 0;
    virtual void store_release(u64* word, u64 value) = 0;
    virtual void read(void* destination, const void* source, std::uint64_t bytes) = 0;
    virtual void write(void* destination, const void* source, std::uint64_t bytes) = 0;
};
std::unique_ptr<MemoryPort> make_host_memory_port();

}  // namespace plait
