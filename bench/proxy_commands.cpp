// Commands per second that one proxy drains from one FIFO, and the time from a command's publication to its post.
//
//   build/bin/bench_proxy_commands
//
// The network costs nothing here (NullSession completes everything at the next step), so the figures are the proxy's
// own.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "runtime/net/loopback.h"
#include "runtime/proxy/proxy.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

class NullSession final : public ProxySession {
public:
    bool try_post(const PutRequest& request) override {
        if (!post_times.empty()) post_times[request.id % post_times.size()] = Clock::now();
        posted.push_back(request.id);
        return true;
    }
    bool step(std::vector<std::uint64_t>* completed, std::vector<Arrival>*) override {
        completed->swap(posted);
        posted.clear();
        return !completed->empty();
    }
    SessionCounters counters() const override { return {}; }
    std::string describe() const override { return "null"; }
    std::vector<std::uint64_t> posted;
    std::vector<Clock::time_point> post_times;
};

struct Rings {
    explicit Rings(std::uint64_t slots) : fifo(slots), arrivals(64) {}
    ProxyRings view() { return {fifo.data(), fifo.size(), arrivals.data(), arrivals.size(), &lines}; }
    void publish(MemoryPort& memory, u64 position, u64 bytes) {
        TransferCommand& slot = fifo[position % fifo.size()];
        slot = {slot.sequence, static_cast<u32>(TransferOpcode::PutSignal), 1, 0, 0, bytes, 8, position + 1, 0};
        memory.store_release(&slot.sequence, position + 1);
    }
    std::vector<TransferCommand> fifo;
    std::vector<Arrival> arrivals;
    HostLines lines{};
};

// Publishes a full FIFO outside the clock, drains it inside.
void drain(benchmark::State& state, ProxySession& session, MemoryPort& memory, Rings& rings, u64 bytes) {
    TransferProxy proxy(rings.view(), session, memory, static_cast<std::uint64_t>(state.range(0)));
    u64 position = 0;
    for (auto _ : state) {
        state.PauseTiming();
        const u64 target = position + rings.fifo.size();
        for (; position < target; ++position) rings.publish(memory, position, bytes);
        state.ResumeTiming();
        while (proxy.completed_prefix() < target) proxy.step();
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(position));
}

void ProxyDrain(benchmark::State& state) {
    Rings rings(4096);
    NullSession session;
    const auto memory = make_host_memory_port();
    drain(state, session, *memory, rings, 4096);
}
BENCHMARK(ProxyDrain)->Arg(1)->Arg(8)->Arg(64);

void ProxyDrainLoopback(benchmark::State& state) {
    Rings rings(4096);
    std::vector<unsigned char> workspaces[2] = {std::vector<unsigned char>(1 << 20),
                                                std::vector<unsigned char>(1 << 20)};
    LoopbackEndpoint endpoint;
    endpoint.fabric = LoopbackFabric::in_process(2);
    for (auto& workspace : workspaces) endpoint.workspaces.push_back({workspace.data(), workspace.size()});
    LoopbackOptions options;
    options.queue_depth = 256;
    const auto session = make_loopback_session(endpoint, options);
    const auto memory = make_host_memory_port();
    drain(state, *session, *memory, rings, 64);
}
BENCHMARK(ProxyDrainLoopback)->Arg(64);

// A command published while the proxy spins: time until the session has it. One thread plays both sides in turn, so
// this is the proxy's share alone, without the cache line's way between cores.
void ProxyCommandToPost(benchmark::State& state) {
    Rings rings(64);
    NullSession session;
    session.post_times.resize(64);
    const auto memory = make_host_memory_port();
    TransferProxy proxy(rings.view(), session, *memory);
    std::vector<double> nanoseconds;
    u64 position = 0;
    for (auto _ : state) {
        const auto published = Clock::now();
        rings.publish(*memory, position, 4096);
        while (proxy.completed_prefix() <= position) proxy.step();
        nanoseconds.push_back(
            std::chrono::duration<double, std::nano>(session.post_times[position % 64] - published).count());
        ++position;
    }
    std::sort(nanoseconds.begin(), nanoseconds.end());
    state.counters["p50_ns"] = nanoseconds[nanoseconds.size() / 2];
    state.counters["p99_ns"] = nanoseconds[nanoseconds.size() * 99 / 100];
}
BENCHMARK(ProxyCommandToPost);

}  // namespace
}  // namespace plait

BENCHMARK_MAIN();
