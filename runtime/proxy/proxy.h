// TransferProxy: drains one rank's device-to-host FIFO into a ProxySession and publishes what comes back.
//
// One thread drives step() in production, the simulator in tests; no other thread calls anything here. The FIFO's slot
// n is free again once fifo_completed > n was published: completions may come in any order, the published word is the
// length of the completed prefix. Arrivals go into the arrival ring, entry first, then arrivals_posted (release); the
// relay frees entries through arrivals_taken.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/net/proxy_session.h"
#include "templates/abi/kernel_args.h"

namespace plait {

struct ProxyRings {
    TransferCommand* fifo = nullptr;
    std::uint64_t fifo_slots = 0;  // power of two
    Arrival* arrivals = nullptr;
    std::uint64_t arrival_slots = 0;  // power of two
    HostLines* lines = nullptr;
};

// What tells other nodes that this rank has given up: once HostLines::told is set, `bytes` at `offset` of the workspace
// go to the same place of each rank, and the word at `signal_offset` becomes `signal_value`. It does not go through the
// FIFO, which a kernel that gave up leaves with gaps.
struct AbortNotice {
    std::uint64_t offset = 0, bytes = 0, signal_offset = 0, signal_value = 0;
    std::vector<std::uint32_t> ranks;
};

// Of `rank` to its rail peers, who tell the ranks of their nodes.
AbortNotice abort_notice(int rank, int world, int ranks_per_node);

class TransferProxy {
public:
    // ArgumentError: a ring is missing or its size is not a power of two.
    TransferProxy(ProxyRings rings, ProxySession& session, MemoryPort& memory, std::uint64_t max_batch = 64);
    // One non-blocking round; true if anything moved. TransportError: the session failed, or the FIFO holds a record
    // that no kernel writes. The proxy is then dead.
    bool step();
    bool idle() const;  // nothing taken is uncompleted, no arrival waits for a ring entry
    std::uint64_t taken() const { return taken_; }
    std::uint64_t completed_prefix() const { return completed_prefix_; }
    void set_abort_notice(AbortNotice notice) { notice_ = std::move(notice); }

private:
    bool post_notice();
    bool take_commands();
    bool post_waiting();
    bool collect();
    bool publish_arrivals();
    void complete(std::uint64_t position);

    ProxyRings rings_;
    ProxySession& session_;
    MemoryPort& memory_;
    std::uint64_t max_batch_;
    std::uint64_t taken_ = 0, completed_prefix_ = 0, arrivals_posted_ = 0;
    std::deque<PutRequest> waiting_;  // taken, not yet accepted by the session
    std::vector<bool> done_;          // ring of completions beyond the prefix
    std::deque<Arrival> arrivals_;    // handed over by the session, not yet in the arrival ring
    AbortNotice notice_;
    std::size_t notices_posted_ = 0;
    std::vector<std::uint64_t> completed_scratch_;
    std::vector<Arrival> arrived_scratch_;
};

}  // namespace plait
