// A ProxySession that does what the test says, and the rings around it.
#pragma once
#include <functional>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/proxy/proxy.h"

namespace plait::testing {

class ScriptedSession final : public ProxySession {
public:
    bool try_post(const PutRequest& request) override {
        if (posted.size() >= accept_up_to) return false;
        posted.push_back(request);
        return true;
    }
    bool step(std::vector<std::uint64_t>* completed, std::vector<Arrival>* arrivals) override {
        if (on_step) on_step();
        const bool moved = !complete_next.empty() || !arrive_next.empty();
        completed->insert(completed->end(), complete_next.begin(), complete_next.end());
        arrivals->insert(arrivals->end(), arrive_next.begin(), arrive_next.end());
        complete_next.clear();
        arrive_next.clear();
        return moved;
    }
    SessionCounters counters() const override { return {}; }
    std::string describe() const override { return "scripted, rank 0, nic none"; }

    std::uint64_t accept_up_to = ~0ull;
    std::vector<PutRequest> posted;
    std::vector<std::uint64_t> complete_next;
    std::vector<Arrival> arrive_next;
    std::function<void()> on_step;
};

struct ProxyBench {
    explicit ProxyBench(std::uint64_t fifo_slots = 8, std::uint64_t arrival_slots = 4)
        : fifo(fifo_slots), arrivals(arrival_slots), memory(make_host_memory_port()) {}
    ProxyRings rings() { return {fifo.data(), fifo.size(), arrivals.data(), arrivals.size(), &lines}; }
    void publish(u64 position, u64 value = 0) {
        TransferCommand& slot = fifo[position % fifo.size()];
        slot = {
            slot.sequence, static_cast<u32>(TransferOpcode::PutSignal), 1, 0, 0, 16, 8, value ? value : position, 0};
        memory->store_release(&slot.sequence, position + 1);
    }
    std::vector<TransferCommand> fifo;
    std::vector<Arrival> arrivals;
    HostLines lines{};
    ScriptedSession session;
    std::unique_ptr<MemoryPort> memory;
};

}  // namespace plait::testing
