// RC session: one reliable connection per peer on libibverbs (InfiniBand, RoCE, Soft-RoCE).
//
// A put is its payload as RDMA writes and then the flag as an RDMA write of 8 inline bytes, on the same queue pair. RC
// executes the writes of a queue pair in order (InfiniBand spec, 9.5 "transaction ordering"), and the flag lies in the
// payload's own registration, made without relaxed ordering, so that PCIe keeps the order too: who sees the flag sees
// the payload. A peer can write nothing but this registration; its remote key is made for the session and dies with it.
//
// Puts are collected by try_post and go to the NIC at the next step(): one doorbell per peer, and only the last work
// request of a batch asks for a completion, which retires all before it. The session counts its own work requests: a
// queue is full when `send_depth` are posted and not retired, whatever the provider would still take.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/exchange.h"
#include "runtime/net/proxy_session.h"
#include "runtime/net/verbs_device.h"

namespace plait {

struct RcOptions {
    std::uint32_t rank = 0, world = 1;
    std::vector<std::uint32_t> peers;  // ranks this one puts to or hears from; both sides list each other
    MemoryRegion workspace;
    int dmabuf_fd = -1;  // >= 0: the workspace is GPU memory exported as this dma-buf
    VerbsDeviceOptions device;
    Exchange exchange;
    std::string key_prefix = "rc/";                // one session, one prefix
    std::uint32_t send_depth = 256;                // work requests per peer
    std::uint64_t max_message_bytes = 1ull << 30;  // verbs allow 2 GiB; a larger put is several writes
    // A lost peer is an error after 4.096 us * 2^timeout for each of 1 + retry_count tries, here 3.8 s. retry_count 7
    // means for ever on some providers (Soft-RoCE), so 6 is the most.
    std::uint8_t timeout = 17, retry_count = 6;
    // A connection on which nothing was under way for this long carries an empty write: RC notices a lost peer only
    // when it sends. 0: never. A peer that closes its session first counts as lost.
    std::uint64_t keepalive_ns = 1'000'000'000;
};

// Collective over `peers`. TransportError: device, registration, connection, a peer that does not come.
std::unique_ptr<ProxySession> make_rc_session(std::shared_ptr<const VerbsApi> api, const RcOptions& options);

}  // namespace plait
