// EFA session: scalable reliable datagrams (SRD) through efadv_create_qp_ex and ibv_wr_*. Has never run on an EFA
// device: it is compiled against the real header and runs in tests against a provider of SRD's semantics.
//
// SRD delivers every write once and in any order, completions too; it has no inline data and no atomics that plait
// could use (efadv_create_qp_ex(3), ibv_wr_post(3)). A flag written after its payload would overtake it, so nothing is
// announced by a write of a flag: signal_protocol.h. One queue pair speaks to all peers, one address handle each.
//
// Memory that peers can write: the workspace, and the inbox (descriptor tables and credits, host memory). Keys are made
// for the session and die with it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/efa_api.h"
#include "runtime/net/exchange.h"
#include "runtime/net/verbs_device.h"

namespace plait {

struct SrdOptions {
    std::uint32_t rank = 0, world = 1;
    std::vector<std::uint32_t> peers;  // ranks this one puts to or hears from; both sides list each other
    MemoryRegion workspace;
    int dmabuf_fd = -1;  // >= 0: the workspace is GPU memory exported as this dma-buf
    VerbsDeviceOptions device;
    Exchange exchange;
    std::string key_prefix = "srd/";
    std::uint32_t send_depth = 512, receive_depth = 1024;
    std::uint32_t slots = 64;                      // puts under way per peer, at most kMaxSignalSlots
    std::uint64_t max_message_bytes = 1ull << 30;  // lowered to what the device writes in one message
};

// Collective over `peers`. TransportError: device, a capability that it lacks, registration, a peer that does not come.
std::unique_ptr<ProxySession> make_srd_session(std::shared_ptr<const VerbsApi> verbs, std::shared_ptr<const EfaApi> efa,
                                               const SrdOptions& options);

}  // namespace plait
