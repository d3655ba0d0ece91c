// ProxyThread: one thread that drives TransferProxy::step() until it is told to stop.
//
// The owner calls everything below from any one thread; the proxy, its session and its memory port belong to the thread
// from construction to stop(). The thread spins while a launch is under way and for `spin_ns` after the last thing
// that moved or woke it, then polls every `idle_poll_ns`: a GPU cannot wake a thread, so this is what the first command after a
// pause may cost. A step never blocks, hence stop() returns within drain_ns plus one poll.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/proxy/proxy.h"

namespace plait {

struct ProxyThreadOptions {
    std::uint64_t spin_ns = 1'000'000;
    std::uint64_t idle_poll_ns = 50'000;
    std::uint64_t drain_ns = 2'000'000'000;  // how long stop() lets outstanding transfers complete
    int numa_node = -1;                      // -1: not pinned
    // Asked before the thread goes to sleep: it does not while a launch is under way, however quiet it is.
    std::function<bool()> launch_under_way;
    // Called once, on the thread, before its first step: a session that calls CUDA makes its context current here.
    std::function<void()> on_start;
    // Called once, on the thread, when it dies of an exception: tell running kernels to leave. Must not throw.
    std::function<void(const std::exception_ptr&)> on_failure;
};

class ProxyThread {
public:
    ProxyThread(std::unique_ptr<TransferProxy> proxy, ProxyThreadOptions options);
    ~ProxyThread();  // stop(), errors dropped
    ProxyThread(const ProxyThread&) = delete;
    ProxyThread& operator=(const ProxyThread&) = delete;

    void wake();         // something is on its way: spins for another spin_ns
    void check() const;  // rethrows what the thread died of
    bool failed() const { return failed_.load(std::memory_order_acquire); }
    // Drains and joins. False where transfers were still outstanding after drain_ns. Later calls return the same.
    bool stop();
    std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }
    std::uint64_t sleeps() const { return sleeps_.load(std::memory_order_relaxed); }

private:
    void run();
    void loop();

    std::unique_ptr<TransferProxy> proxy_;
    ProxyThreadOptions options_;
    std::atomic<bool> stopping_{false}, failed_{false}, drained_{true};
    std::atomic<bool> woken_{false};
    std::atomic<std::uint64_t> rounds_{0}, sleeps_{0};
    mutable std::mutex mutex_;  // guards failure_ and the condition below
    std::condition_variable wake_;
    std::exception_ptr failure_;
    std::thread thread_;  // last: starts when everything above exists
};

}  // namespace plait
