#include "runtime/session/shm_network.h"

#include <atomic>

#include "runtime/net/loopback.h"

namespace plait {
namespace {

// Ranks and proxies may outnumber the cores: the thread sleeps as soon as nothing moves, and looks again so often.
constexpr std::uint64_t kSpinNs = 20'000;
constexpr std::uint64_t kIdlePollNs = 100'000;
// A killed peer takes nothing any more.
constexpr std::uint64_t kDrainNs = 200'000'000;

}  // namespace

ShmNetwork::ShmNetwork(const ShmNetworkOptions& options) {
    LoopbackEndpoint endpoint;
    endpoint.rank = static_cast<std::uint32_t>(options.rank);
    endpoint.workspaces = options.workspaces;
    endpoint.fabric = LoopbackFabric::between_processes(static_cast<std::uint32_t>(options.workspaces.size()),
                                                        endpoint.rank, options.exchange);
    if (!options.nic.empty()) endpoint.nic = options.nic;
    LoopbackOptions loopback;
    loopback.delivery = options.contract;
    session_ = make_loopback_session(endpoint, loopback);
    memory_ = make_host_memory_port();

    ProxyThreadOptions thread;
    thread.spin_ns = kSpinNs;
    thread.idle_poll_ns = kIdlePollNs;
    thread.drain_ns = kDrainNs;
    // The kernel waits for transfers that will never come: it leaves instead of running into its deadline.
    thread.on_failure = [lines = options.rings.lines](const std::exception_ptr&) {
        std::atomic_ref<u64>(lines->abort).store(static_cast<u64>(AbortCause::Network), std::memory_order_release);
    };
    auto proxy = std::make_unique<TransferProxy>(options.rings, *session_, *memory_);
    proxy->set_abort_notice(
        abort_notice(options.rank, static_cast<int>(options.workspaces.size()), options.ranks_per_node));
    thread_ = std::make_unique<ProxyThread>(std::move(proxy), thread);
}

ShmNetwork::~ShmNetwork() { thread_->stop(); }

}  // namespace plait
