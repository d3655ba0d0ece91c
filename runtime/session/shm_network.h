// ShmNetwork: what carries a rank's puts to other nodes of the same machine: a loopback proxy session over shared memory
// and the thread that drives it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/exchange.h"
#include "runtime/net/put_check.h"
#include "runtime/proxy/proxy.h"
#include "runtime/proxy/proxy_thread.h"

namespace plait {

struct ShmNetworkOptions {
    int rank = 0, ranks_per_node = 1;
    std::vector<MemoryRegion> workspaces;  // by rank, as this process addresses them
    NetworkContract contract = NetworkContract::Ordered;
    std::string nic;
    Exchange exchange;
    ProxyRings rings;  // outlive the network
};

class ShmNetwork {
public:
    // Collective.
    explicit ShmNetwork(const ShmNetworkOptions& options);
    ~ShmNetwork();  // stops the thread
    ShmNetwork(const ShmNetwork&) = delete;
    ShmNetwork& operator=(const ShmNetwork&) = delete;
    void check() const { thread_->check(); }  // TransportError: what the proxy died of
    bool failed() const { return thread_->failed(); }

private:
    std::unique_ptr<ProxySession> session_;
    std::unique_ptr<MemoryPort> memory_;
    std::unique_ptr<ProxyThread> thread_;  // last: uses the two above
};

}  // namespace plait
