// CudaNetwork: what carries a rank's puts to other nodes: a proxy session between GPUs and the thread that drives it.
#pragma once
#include <memory>
#include <vector>

#include "runtime/device/driver.h"
#include "runtime/net/exchange.h"
#include "runtime/proxy/proxy.h"
#include "runtime/proxy/proxy_thread.h"

namespace plait {

struct CudaNetworkOptions {
    std::shared_ptr<const Driver> driver;
    cu::Context context = nullptr;
    int rank = 0, world = 1, ranks_per_node = 1;
    std::vector<cu::DevicePointer> bases;  // this rank's mapping of every rank's workspace
    std::uint64_t workspace_bytes = 0;
    NetworkContract contract = NetworkContract::Ordered;
    std::string nic;
    Exchange exchange;
    ProxyRings rings;  // outlive the network
};

class CudaNetwork {
public:
    // Collective; no kernel of these ranks runs yet.
    explicit CudaNetwork(const CudaNetworkOptions& options);
    ~CudaNetwork();  // stops the thread
    CudaNetwork(const CudaNetwork&) = delete;
    CudaNetwork& operator=(const CudaNetwork&) = delete;
    void check() const { thread_->check(); }  // TransportError: what the proxy died of
    bool failed() const { return thread_->failed(); }
    void wake() { thread_->wake(); }  // a launch is on its way

private:
    std::unique_ptr<ProxySession> session_;
    std::unique_ptr<MemoryPort> memory_;
    std::unique_ptr<ProxyThread> thread_;  // last: uses the two above
};

}  // namespace plait
