#include "runtime/proxy/proxy_thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/proxy/cpu_list.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kRoundsPerYield = 256;

void cpu_relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

void pin_to_numa_node(int node) {
    const std::string path = fmt::format("/sys/devices/system/node/node{}/cpulist", node);
    std::ifstream file(path);
    std::string list;
    if (!std::getline(file, list) || list.empty())
        throw TransportError(fmt::format("cannot pin the proxy to NUMA node {}: {} is not readable", node, path),
                             "pass numa_node = -1 to leave the thread unpinned");
    const std::vector<int> cpus = parse_cpu_list(list);
    const int highest = *std::max_element(cpus.begin(), cpus.end());
    // As many bits as the machine has processors: cpu_set_t ends at CPU_SETSIZE, 1024.
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(highest + 1), [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(highest + 1);
    CPU_ZERO_S(bytes, set.get());
    for (int cpu : cpus) CPU_SET_S(cpu, bytes, set.get());
    if (const int status = pthread_setaffinity_np(pthread_self(), bytes, set.get()))
        throw TransportError(
            fmt::format("cannot pin the proxy to NUMA node {} (cpus {}): error {}", node, list, status),
            "the process may be confined to other cpus; pass numa_node = -1");
}

}  // namespace

ProxyThread::ProxyThread(std::unique_ptr<TransferProxy> proxy, ProxyThreadOptions options)
    : proxy_(std::move(proxy)), options_(std::move(options)), thread_([this] { run(); }) {}

ProxyThread::~ProxyThread() { stop(); }

void ProxyThread::wake() {
    {
        std::lock_guard lock(mutex_);  // so that the thread cannot miss the notification between its test and its wait
        woken_.store(true, std::memory_order_relaxed);
    }
    wake_.notify_one();
}

void ProxyThread::check() const {
    if (!failed()) return;
    std::lock_guard lock(mutex_);
    std::rethrow_exception(failure_);
}

bool ProxyThread::stop() {
    {
        std::lock_guard lock(mutex_);
        stopping_.store(true, std::memory_order_release);
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
    return drained_.load(std::memory_order_acquire);
}

void ProxyThread::run() {
    try {
        if (options_.numa_node >= 0) pin_to_numa_node(options_.numa_node);
        if (options_.on_start) options_.on_start();
        loop();
    } catch (...) {
        const std::exception_ptr failure = std::current_exception();
        {
            std::lock_guard lock(mutex_);
            failure_ = failure;
        }
        drained_.store(false, std::memory_order_release);
        failed_.store(true, std::memory_order_release);
        if (options_.on_failure) options_.on_failure(failure);
    }
}

void ProxyThread::loop() {
    Clock::time_point last_moved = Clock::now();
    bool draining = false;
    Clock::time_point drain_until;
    std::uint64_t round = 0;
    for (;;) {
        const bool moved = proxy_->step();
        rounds_.store(++round, std::memory_order_relaxed);
        if (moved || woken_.exchange(false, std::memory_order_relaxed)) last_moved = Clock::now();
        if (stopping_.load(std::memory_order_acquire)) {
            if (!draining) {
                draining = true;
                drain_until = Clock::now() + std::chrono::nanoseconds(options_.drain_ns);
                continue;
            }
            if (!moved && proxy_->idle()) return;
            if (Clock::now() < drain_until) continue;
            drained_.store(false, std::memory_order_release);
            return;
        }
        if (moved) continue;
        const bool spin = !proxy_->idle() ||
                          Clock::now() - last_moved < std::chrono::nanoseconds(options_.spin_ns) ||
                          (options_.launch_under_way && options_.launch_under_way());
        if (spin) {
            // Where threads outnumber cores, whoever has something to do gets the core.
            if (round % kRoundsPerYield == 0)
                std::this_thread::yield();
            else
                cpu_relax();
            continue;
        }
        std::unique_lock lock(mutex_);
        sleeps_.fetch_add(1, std::memory_order_relaxed);
        wake_.wait_for(lock, std::chrono::nanoseconds(options_.idle_poll_ns), [this] {
            return stopping_.load(std::memory_order_relaxed) || woken_.load(std::memory_order_relaxed);
        });
    }
}

}  // namespace plait
