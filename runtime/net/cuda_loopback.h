// Loopback session between GPUs of one host: ranks on different GPUs that are different nodes to plait. Payload moves
// by copy engine on private streams, beside the running kernels.
//
// Ordered: payload copy, then cuStreamWriteValue64 of the flag on the same stream; one stream per peer. The write's
// default form makes earlier work of its stream visible system-wide first (CUDA driver API, stream memory operations).
// Unordered: a payload goes in halves over two streams; the sender sees both done by event query and hands the arrival
// to the destination's mailbox, whose proxy publishes it. Two puts that signal the same flag are handed over in order.
//
// Everything is created and used once (streams, events, peer paths) in make_cuda_loopback, while no kernel runs: first
// use may allocate, and an allocation waits for running kernels. try_post and step need `context` current in their
// thread and belong in a thread whose stream-capture mode is not global (CaptureModeScope).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/driver.h"
#include "runtime/net/exchange.h"
#include "runtime/net/proxy_session.h"

namespace plait {

struct CudaLoopbackOptions {
    std::shared_ptr<const Driver> driver;
    cu::Context context = nullptr;
    int rank = 0, world = 1;
    std::vector<cu::DevicePointer> bases;  // this process's mapping of every rank's workspace; 0: not reachable
    std::uint64_t workspace_bytes = 0;     // of each rank, as reserved
    NetworkContract contract = NetworkContract::Ordered;
    Exchange exchange;  // used when unordered: the ranks of the host meet
    std::string nic = "loop0";
    std::uint64_t queue_depth = 32;         // puts under way per peer
    std::uint64_t split_bytes = 256 << 10;  // unordered: payloads of at least this size go in halves
};

// Collective over the world when unordered. ArgumentError, DeviceError (creation), TransportError (meeting).
std::unique_ptr<ProxySession> make_cuda_loopback(const CudaLoopbackOptions& options);

}  // namespace plait
