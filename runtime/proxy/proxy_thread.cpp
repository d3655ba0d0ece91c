#include "runtime/proxy/proxy_thread.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kRoundsPerYield = 256;

void cpu_relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// "0-3,8,10-11", the kernel's list format, into a CPU set.
cpu_set_t parse_cpu_list(const std::string& text) {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::size_t at = 0;
    while (at < text.size()) {
        std::size_t used = 0;
        const int first = std::stoi(text.substr(at), &used);
        at += used;
        int last = first;
        if (at < text.size() && text[at] == '-') {
            last = std::stoi(text.substr(at + 1), &used);
            at += used + 1;
        }
        for (int cpu = first; cpu <= last; ++cpu) CPU_SET(cpu, &set);
        ++at;
    }
    return set;
}

void pin_to_numa_node(int node) {
    const std::string path = fmt::format("/sys/devices/system/node/node{}/cpulist", node);
    std::ifstream file(path);
    std::string list;
    if (!std::getline(file, list) || list.empty())
        throw TransportError(fmt::format("cannot pin the proxy to NUMA node {}: {} is not readable", node, path),
                             "pass numa_node = -1 to leave the thread unpinned");
    const cpu_set_t set = parse_cpu_list(list);
    if (const int status = pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
        throw TransportError(
            fmt::format("cannot pin the proxy to NUMA node {} (cpus {}): error {}", node, list, status),
            "the process may be confined to other cpus; pass numa_node = -1");
}

}  // namespace

ProxyThread::ProxyThread(std::unique_ptr<TransferProxy> proxy, ProxyThreadOptions options)
    : proxy_(std::move(proxy)), options_(std::move(options)), thread_([this] { run(); }) {}

ProxyThread::~ProxyThread() { stop(); }

void ProxyThread::launch_begins() {
    {
        std::lock_guard lock(mutex_);  // so that the thread cannot miss the notification between its test and its wait
        launches_.fetch_add(1, std::memory_order_relaxed);
    }
    wake_.notify_one();
}

void ProxyThread::launch_ends() { launches_.fetch_sub(1, std::memory_order_relaxed); }

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
        if (moved) last_moved = Clock::now();
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
        const bool spin = launches_.load(std::memory_order_relaxed) > 0 || !proxy_->idle() ||
                          Clock::now() - last_moved < std::chrono::nanoseconds(options_.spin_ns);
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
            return stopping_.load(std::memory_order_relaxed) || launches_.load(std::memory_order_relaxed) > 0;
        });
    }
}

}  // namespace plait
