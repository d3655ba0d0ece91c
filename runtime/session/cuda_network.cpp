#include "runtime/session/cuda_network.h"

#include <atomic>

#include "runtime/net/cuda_loopback.h"

namespace plait {
namespace {

// A command that comes after a longer pause waits for one poll; shorter pauses are inside a launch.
constexpr std::uint64_t kSpinNs = 10'000'000;
constexpr std::uint64_t kIdlePollNs = 20'000;

}  // namespace

CudaNetwork::CudaNetwork(const CudaNetworkOptions& options) {
    CudaLoopbackOptions loopback;
    loopback.driver = options.driver;
    loopback.context = options.context;
    loopback.rank = options.rank;
    loopback.world = options.world;
    loopback.bases = options.bases;
    loopback.workspace_bytes = options.workspace_bytes;
    loopback.contract = options.contract;
    loopback.exchange = options.exchange;
    loopback.nic = options.nic;
    session_ = make_cuda_loopback(loopback);
    memory_ = make_host_memory_port();

    ProxyThreadOptions thread;
    thread.spin_ns = kSpinNs;
    thread.idle_poll_ns = kIdlePollNs;
    // For the thread's whole life: a proxy never takes part in, nor spoils, a capture that another thread makes.
    thread.on_start = [driver = options.driver, context = options.context] {
        check_driver(*driver, driver->context_push(context),
                     "making the session's context current on the proxy thread");
        cu::CaptureMode mode = cu::CaptureMode::ThreadLocal;
        check_driver(*driver, driver->exchange_capture_mode(&mode), "setting the proxy thread's capture mode");
    };
    // The kernel waits for transfers that will never come: it leaves instead of running into its deadline.
    thread.on_failure = [lines = options.rings.lines](const std::exception_ptr&) {
        std::atomic_ref<u64>(lines->abort).store(static_cast<u64>(AbortCause::Network), std::memory_order_release);
    };
    // Also under graph replay, of which the host is not told: the relay writes when a launch begins, its last CTA when
    // it ends.
    thread.launch_under_way = [lines = options.rings.lines] {
        const u64 ended = std::atomic_ref<u64>(lines->launch_ended).load(std::memory_order_relaxed);
        return std::atomic_ref<u64>(lines->launch_begun).load(std::memory_order_relaxed) > ended;
    };
    auto proxy = std::make_unique<TransferProxy>(options.rings, *session_, *memory_);
    proxy->set_abort_notice(abort_notice(options.rank, options.world, options.ranks_per_node));
    thread_ = std::make_unique<ProxyThread>(std::move(proxy), thread);
}

CudaNetwork::~CudaNetwork() { thread_->stop(); }

}  // namespace plait
