#include "runtime/net/loopback.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/net/contract_world.h"

namespace plait {
namespace {

using testing::ContractCase;
using testing::ContractOutcome;
using testing::ContractWorld;

ContractCase small_case(std::uint64_t seed, NetworkContract delivery, bool flag_after_data = false) {
    LoopbackOptions options;
    options.delivery = delivery;
    options.packet_bytes = 64 + seed % 5 * 64;
    options.max_message_bytes = seed % 2 ? 400 : 4096;  // odd seeds split a put into several messages
    options.queue_depth = 1 + seed % 7;
    options.flag_after_data = flag_after_data;
    ContractCase test;
    test.seed = seed;
    test.ranks = 2 + seed % 3;
    test.make_sessions = [options, seed](const std::vector<MemoryRegion>& workspaces) mutable {
        LoopbackEndpoint endpoint;
        endpoint.workspaces = workspaces;
        endpoint.fabric = LoopbackFabric::in_process(static_cast<std::uint32_t>(workspaces.size()));
        std::vector<std::unique_ptr<ProxySession>> sessions;
        for (; endpoint.rank < workspaces.size(); ++endpoint.rank) {
            options.seed = seed * 64 + endpoint.rank + 1;
            sessions.push_back(make_loopback_session(endpoint, options));
        }
        return sessions;
    };
    return test;
}

std::string text(const std::vector<std::string>& lines) {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
}

class LoopbackContract : public ::testing::TestWithParam<NetworkContract> {};

TEST_P(LoopbackContract, VisibleSignalImpliesVisiblePayloadOver1000Seeds) {
    std::uint64_t refused = 0;
    for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
        const ContractOutcome outcome = ContractWorld(small_case(seed, GetParam())).run();
        ASSERT_TRUE(outcome.finished) << "seed " << seed << " did not finish";
        ASSERT_TRUE(outcome.violations.empty()) << "seed " << seed << ":\n" << text(outcome.violations);
        for (const SessionCounters& counters : outcome.counters) {
            ASSERT_EQ(counters.posted, counters.completed);
            refused += counters.queue_full;
        }
    }
    EXPECT_GT(refused, 1000u);  // full queues were part of it
}
INSTANTIATE_TEST_SUITE_P(Networks, LoopbackContract,
                         ::testing::Values(NetworkContract::Ordered, NetworkContract::Unordered));

TEST(Loopback, FlagAfterDataOnAnUnorderedNetworkIsCaught) {
    std::uint64_t caught_at = 0;
    for (std::uint64_t seed = 1; seed <= 100 && caught_at == 0; ++seed) {
        const ContractCase test = small_case(seed, NetworkContract::Unordered, true);
        if (!ContractWorld(test).run().violations.empty()) caught_at = seed;
    }
    EXPECT_GT(caught_at, 0u);
    RecordProperty("caught_at_seed", static_cast<int>(caught_at));
}

TEST(Loopback, EqualSeedsGiveEqualRuns) {
    const ContractCase test = small_case(7, NetworkContract::Unordered);
    const ContractOutcome first = ContractWorld(test).run(), second = ContractWorld(test).run();
    EXPECT_EQ(first.trace, second.trace);
    EXPECT_NE(first.trace, ContractWorld(small_case(8, NetworkContract::Unordered)).run().trace);
}

// Two ranks without proxies; the test calls the sessions itself.
struct Pair {
    explicit Pair(LoopbackOptions options) {
        LoopbackEndpoint endpoint;
        endpoint.fabric = LoopbackFabric::in_process(2);
        for (auto& memory : memories) endpoint.workspaces.push_back({memory.data(), memory.size()});
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
            endpoint.rank = rank;
            sessions.push_back(make_loopback_session(endpoint, options));
        }
    }
    void step(int rounds) {
        for (int round = 0; round < rounds; ++round)
            for (auto& session : sessions) session->step(&completed, &arrivals);
    }
    std::vector<unsigned char> memories[2] = {std::vector<unsigned char>(1 << 20), std::vector<unsigned char>(1 << 20)};
    std::vector<std::unique_ptr<ProxySession>> sessions;
    std::vector<std::uint64_t> completed;
    std::vector<Arrival> arrivals;
};

PutRequest put(std::uint64_t id, std::uint64_t bytes) {
    PutRequest request;
    request.id = id;
    request.destination_rank = 1;
    request.bytes = bytes;
    request.signal_offset = (1 << 20) - 8;
    request.signal_value = id + 1;
    return request;
}

std::string error_of(ProxySession& session, const PutRequest& request) {
    try {
        session.try_post(request);
    } catch (const TransportError& error) {
        return error.message();
    }
    return "";
}

TEST(Loopback, RefusesWhenTheQueueIsFullAndRecovers) {
    LoopbackOptions options;
    options.queue_depth = 4;  // a put is two messages: payload and flag
    options.latency_ns = 20'000'000;
    Pair pair(options);
    EXPECT_TRUE(pair.sessions[0]->try_post(put(0, 100)));
    EXPECT_TRUE(pair.sessions[0]->try_post(put(1, 100)));
    EXPECT_FALSE(pair.sessions[0]->try_post(put(2, 100)));
    EXPECT_EQ(pair.sessions[0]->counters().queue_full, 1u);
    while (pair.completed.size() < 2) pair.step(1);
    EXPECT_TRUE(pair.sessions[0]->try_post(put(2, 100)));
}

TEST(Loopback, PutLargerThanTheQueueGoesOutInParts) {
    LoopbackOptions options;
    options.delivery = NetworkContract::Unordered;
    options.seed = 3;
    options.queue_depth = 2;
    options.max_message_bytes = 1000;
    Pair pair(options);
    for (std::size_t byte = 0; byte < 50'000; ++byte)
        pair.memories[0][byte] = static_cast<unsigned char>(byte * 13 + 1);
    ASSERT_TRUE(pair.sessions[0]->try_post(put(5, 50'000)));
    pair.step(5000);
    EXPECT_EQ(pair.completed, std::vector<std::uint64_t>{5});
    ASSERT_EQ(pair.arrivals.size(), 1u);
    EXPECT_EQ(pair.arrivals[0].signal_value, 6u);
    EXPECT_TRUE(std::equal(pair.memories[0].begin(), pair.memories[0].begin() + 50'000, pair.memories[1].begin()));
}

TEST(Loopback, FailedCompletionNamesRankPeerNicQueuePairAndStatus) {
    LoopbackOptions options;
    options.fail_message = 3;
    Pair pair(options);
    EXPECT_TRUE(pair.sessions[0]->try_post(put(0, 64)));
    EXPECT_TRUE(pair.sessions[0]->try_post(put(1, 64)));
    try {
        pair.step(10);
        FAIL() << "no error";
    } catch (const TransportError& error) {
        EXPECT_EQ(error.message(),
                  "put 1 of rank 0 to rank 1 failed: nic loop0, queue pair 1, status transport retry counter exceeded "
                  "(emulated)");
    }
}

TEST(Loopback, RefusesWhatLeavesTheWorkspace) {
    Pair pair({});
    ProxySession& session = *pair.sessions[0];
    PutRequest request = put(0, 64);
    request.destination_offset = (1 << 20) - 32;
    EXPECT_NE(error_of(session, request).find("destination at 1048544 of 64 bytes leaves the workspace"),
              std::string::npos);
    request = put(0, 64);
    request.source_offset = ~0ull - 31;  // offset + bytes wraps to 32
    EXPECT_NE(error_of(session, request).find("source at"), std::string::npos);
    request = put(0, 0);
    request.signal_offset = 1 << 20;
    EXPECT_NE(error_of(session, request).find("flag at"), std::string::npos);
    request.signal_offset = 12;
    EXPECT_NE(error_of(session, request).find("not on an 8-byte boundary"), std::string::npos);
    request.destination_rank = 2;
    EXPECT_NE(error_of(session, request).find("names rank 2 of 2"), std::string::npos);
    EXPECT_EQ(session.counters().posted, 0u);
}

TEST(Loopback, WallClockHoldsBandwidth) {
    LoopbackOptions options;
    options.bytes_per_second = 100'000'000;
    Pair pair(options);
    const auto begin = std::chrono::steady_clock::now();
    PutRequest request = put(0, 1'000'000);
    ASSERT_TRUE(pair.sessions[0]->try_post(request));
    while (pair.completed.empty()) pair.step(1);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_GE(seconds, 0.0099);  // no upper bound: the machine may be busy
}

TEST(Loopback, RejectsAFabricOfAnotherSize) {
    LoopbackEndpoint endpoint;
    endpoint.fabric = LoopbackFabric::in_process(3);
    endpoint.workspaces.resize(2);
    EXPECT_THROW(make_loopback_session(endpoint), ArgumentError);
    EXPECT_THROW(LoopbackFabric::in_process(kMaxRanks + 1), ArgumentError);
}

}  // namespace
}  // namespace plait
