// The whole host path with real threads: kernel thread, proxy thread and relay of each rank, wall clock.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "runtime/net/loopback.h"
#include "runtime/proxy/proxy_thread.h"

namespace plait {
namespace {

constexpr std::uint64_t kPuts = 200, kBytes = 3000, kFlagsAt = 2 * kPuts * kBytes;

struct ThreadedRank {
    ThreadedRank() : workspace(kFlagsAt + 8 * kPuts, 0), fifo(16), arrivals(8), memory(make_host_memory_port()) {}
    void start(const LoopbackEndpoint& endpoint, NetworkContract delivery) {
        LoopbackOptions options;
        options.delivery = delivery;
        options.packet_bytes = 512;
        options.max_message_bytes = 1000;
        options.latency_ns = 2000;
        options.jitter_ns = 20'000;
        session = make_loopback_session(endpoint, options);
        proxy = std::make_unique<ProxyThread>(
            std::make_unique<TransferProxy>(
                ProxyRings{fifo.data(), fifo.size(), arrivals.data(), arrivals.size(), &lines}, *session, *memory),
            ProxyThreadOptions{});
    }
    // Sends kPuts, relays arrivals, waits for kPuts of the peer; returns how many bytes were wrong.
    std::uint64_t run(std::uint32_t peer) {
        std::uint64_t wrong = 0, sent = 0, seen = 0;
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while ((sent < kPuts || seen < kPuts) && std::chrono::steady_clock::now() < until && !proxy->failed()) {
            if (sent < kPuts && sent - memory->load_acquire(&lines.fifo_completed) < fifo.size()) send(sent++, peer);
            relay();
            while (seen < kPuts && memory->load_acquire(flag(seen)) == seen + 1) wrong += check(seen++);
            std::this_thread::yield();
        }
        return sent == kPuts && seen == kPuts ? wrong : ~0ull;
    }
    u64* flag(std::uint64_t put) { return reinterpret_cast<u64*>(workspace.data() + kFlagsAt + 8 * put); }
    void send(std::uint64_t put, std::uint32_t peer) {
        for (std::uint64_t byte = 0; byte < kBytes; ++byte)
            workspace[put * kBytes + byte] = static_cast<unsigned char>(put * 7 + byte + 1);
        TransferCommand& slot = fifo[put % fifo.size()];
        slot = {slot.sequence,
                static_cast<u32>(TransferOpcode::PutSignal),
                peer,
                put * kBytes,
                (kPuts + put) * kBytes,
                kBytes,
                kFlagsAt + 8 * put,
                put + 1,
                0};
        memory->store_release(&slot.sequence, put + 1);
    }
    void relay() {
        if (memory->load_acquire(&lines.arrivals_posted) == relayed) return;
        const Arrival arrival = arrivals[relayed % arrivals.size()];
        memory->store_release(reinterpret_cast<u64*>(workspace.data() + arrival.signal_offset), arrival.signal_value);
        memory->store_release(&lines.arrivals_taken, ++relayed);
    }
    std::uint64_t check(std::uint64_t put) const {
        std::uint64_t wrong = 0;
        for (std::uint64_t byte = 0; byte < kBytes; ++byte)
            wrong += workspace[(kPuts + put) * kBytes + byte] != static_cast<unsigned char>(put * 7 + byte + 1);
        return wrong;
    }

    std::vector<unsigned char> workspace;
    std::vector<TransferCommand> fifo;
    std::vector<Arrival> arrivals;
    HostLines lines{};
    std::unique_ptr<MemoryPort> memory;
    std::unique_ptr<ProxySession> session;
    std::unique_ptr<ProxyThread> proxy;
    std::uint64_t relayed = 0;
};

class LoopbackThreads : public ::testing::TestWithParam<NetworkContract> {};

TEST_P(LoopbackThreads, TwoRanksExchangeBothWays) {
    ThreadedRank ranks[2];
    LoopbackEndpoint endpoint;
    endpoint.fabric = LoopbackFabric::in_process(2);
    for (ThreadedRank& rank : ranks) endpoint.workspaces.push_back({rank.workspace.data(), rank.workspace.size()});
    for (endpoint.rank = 0; endpoint.rank < 2; ++endpoint.rank) ranks[endpoint.rank].start(endpoint, GetParam());
    std::uint64_t wrong[2] = {};
    std::thread other([&] { wrong[1] = ranks[1].run(0); });
    wrong[0] = ranks[0].run(1);
    other.join();
    for (ThreadedRank& rank : ranks) {
        EXPECT_TRUE(rank.proxy->stop());
        EXPECT_NO_THROW(rank.proxy->check());
    }
    EXPECT_EQ(wrong[0], 0u);
    EXPECT_EQ(wrong[1], 0u);
}
INSTANTIATE_TEST_SUITE_P(Networks, LoopbackThreads,
                         ::testing::Values(NetworkContract::Ordered, NetworkContract::Unordered));

}  // namespace
}  // namespace plait
