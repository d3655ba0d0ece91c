// Loopback sessions: ranks of one host that are different nodes to plait. Bytes go through an emulated NIC.
//
// Ordered: payload, then the flag as a write of its own on the same queue, as the RC session does. Unordered: the
// protocol of signal_protocol.h, as the efa session does.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/loopback_fabric.h"
#include "runtime/net/loopback_nic.h"
#include "runtime/net/put_check.h"

namespace plait {

struct LoopbackEndpoint {
    std::uint32_t rank = 0;
    std::vector<MemoryRegion> workspaces;    // by global rank, as this process addresses them; empty: not reachable
    std::shared_ptr<LoopbackFabric> fabric;  // of as many ranks
    std::string nic = "loop0";
};

struct LoopbackOptions : LoopbackNicOptions {
    std::uint64_t max_message_bytes = 1ull << 30;
    // Announces the payload by a flag write whatever the network: the mistake that tests of an unordered network plant.
    bool flag_after_data = false;
};

// ArgumentError: ranks, workspaces and fabric do not fit each other.
std::unique_ptr<ProxySession> make_loopback_session(const LoopbackEndpoint& endpoint,
                                                    const LoopbackOptions& options = {});

}  // namespace plait
