#include "runtime/net/efa.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "runtime/base/error.h"
#include "runtime/net/signal_protocol.h"
#include "tests/runtime/net/contract_world.h"
#include "tests/runtime/net/meeting.h"
#include "tests/runtime/net/verbs_fake.h"

namespace plait {
namespace {

using testing::ContractCase;
using testing::ContractOutcome;
using testing::ContractWorld;
using testing::FakeVerbs;
using testing::Meeting;

void make_efa_port(FakeVerbs* fake) {
    fake->port.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
    fake->port.lid = 0;
}

std::vector<std::unique_ptr<ProxySession>> make_sessions(FakeVerbs& fake, const std::vector<MemoryRegion>& workspaces,
                                                         const SrdOptions& base = {}, Meeting* given = nullptr) {
    Meeting own;
    Meeting& meeting = given ? *given : own;
    const auto world = static_cast<std::uint32_t>(workspaces.size());
    const auto verbs = fake.verbs();
    const auto efa = fake.efa();
    return meeting.make(world, [&](std::uint32_t rank) {
        SrdOptions options = base;
        options.rank = rank;
        options.world = world;
        options.peers = testing::others(rank, world);
        options.workspace = workspaces[rank];
        options.exchange = meeting.exchange();
        return make_srd_session(verbs, efa, options);
    });
}

TEST(Srd, VisibleSignalImpliesVisiblePayloadOver1000Seeds) {
    std::uint64_t refused = 0;
    for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
        FakeVerbs fake(seed);
        make_efa_port(&fake);
        fake.refuse_every = seed % 4 == 0 ? 5 : 0;
        fake.efa_max_message = seed % 2 ? 300 : 4096;
        SrdOptions options;
        options.slots = static_cast<std::uint32_t>(1 + seed % 6);
        options.send_depth = static_cast<std::uint32_t>(2 + seed % 9);
        options.receive_depth = static_cast<std::uint32_t>(2 + seed % 5);  // receiver not ready is part of it
        ContractCase test;
        test.seed = seed;
        test.ranks = 2 + seed % 2;
        test.puts = 12;
        test.self_puts = false;
        test.make_sessions = [&](const std::vector<MemoryRegion>& workspaces) {
            return make_sessions(fake, workspaces, options);
        };
        const ContractOutcome outcome = ContractWorld(test).run();
        ASSERT_TRUE(outcome.finished) << "seed " << seed;
        ASSERT_TRUE(outcome.violations.empty()) << "seed " << seed << ": " << outcome.violations.front();
        for (const SessionCounters& counters : outcome.counters) refused += counters.queue_full;
    }
    EXPECT_GT(refused, 1000u);
}

struct SrdTest : ::testing::Test {
    FakeVerbs fake;
    std::vector<unsigned char> memories[2] = {std::vector<unsigned char>(1 << 16), std::vector<unsigned char>(1 << 16)};
    std::vector<std::unique_ptr<ProxySession>> sessions;
    std::vector<std::uint64_t> completed;
    std::vector<Arrival> arrivals;

    SrdTest() { make_efa_port(&fake); }
    std::vector<MemoryRegion> workspaces() {
        return {{memories[0].data(), memories[0].size()}, {memories[1].data(), memories[1].size()}};
    }
    std::string error_of_open(const SrdOptions& options = {}) {
        Meeting meeting;
        try {
            sessions = make_sessions(fake, workspaces(), options, &meeting);
        } catch (const Error& error) {
            return error.message();
        }
        return "";
    }
    static PutRequest put(std::uint64_t id, std::uint64_t bytes) {
        PutRequest request;
        request.id = id;
        request.destination_rank = 1;
        request.bytes = bytes;
        request.signal_offset = 64;
        request.signal_value = id + 1;
        return request;
    }
};

TEST_F(SrdTest, RefusesADeviceWithoutRdmaWrite) {
    fake.efa_caps = EFADV_DEVICE_ATTR_CAPS_RDMA_READ | EFADV_DEVICE_ATTR_CAPS_RNR_RETRY;
    EXPECT_EQ(error_of_open(), "nic fake0 does not offer RDMA write with immediate (capabilities 0x3)");
    EXPECT_TRUE(fake.live().empty());
}

TEST_F(SrdTest, RefusesAProviderThatCannotMakeTheQueuePair) {
    fake.fail("efadv_create_qp_ex", EOPNOTSUPP);
    EXPECT_NE(error_of_open().find("efadv_create_qp_ex (SRD, write with immediate) failed on nic fake0"),
              std::string::npos);
    EXPECT_TRUE(fake.live().empty());
}

TEST_F(SrdTest, RefusesWhatDoesNotFitTheImmediate) {
    SrdOptions options;
    options.slots = kMaxSignalSlots + 1;
    EXPECT_NE(error_of_open(options).find("signal slots do not fit the immediate data"), std::string::npos);
}

TEST_F(SrdTest, RefusesQueuesThatTheDeviceDoesNotTake) {
    SrdOptions options;
    options.send_depth = 5000;
    EXPECT_NE(error_of_open(options).find("queues of 5000 sends"), std::string::npos);
}

TEST_F(SrdTest, FailedCompletionNamesRankPeerNicQueuePairAndStatus) {
    ASSERT_EQ(error_of_open(), "");
    fake.break_next_send(IBV_WC_RETRY_EXC_ERR);
    ASSERT_TRUE(sessions[0]->try_post(put(9, 100)));
    try {
        for (int round = 0; round < 100; ++round) sessions[0]->step(&completed, &arrivals);
        FAIL() << "no error";
    } catch (const TransportError& error) {
        EXPECT_NE(error.message().find("put 9 of rank 0 to rank 1 failed: nic fake0"), std::string::npos)
            << error.message();
        EXPECT_NE(error.message().find("transport retry counter exceeded"), std::string::npos);
    }
}

TEST_F(SrdTest, FlagIsPublishedByTheReceiverNotWritten) {
    ASSERT_EQ(error_of_open(), "");
    ASSERT_TRUE(sessions[0]->try_post(put(0, 1000)));
    for (int round = 0; round < 300; ++round)
        for (auto& session : sessions) session->step(&completed, &arrivals);
    ASSERT_EQ(arrivals.size(), 1u);
    EXPECT_EQ(arrivals[0].signal_offset, 64u);
    EXPECT_EQ(arrivals[0].signal_value, 1u);
    EXPECT_EQ(*reinterpret_cast<u64*>(memories[1].data() + 64), 0u);
    EXPECT_EQ(completed, std::vector<std::uint64_t>{0});
}

TEST_F(SrdTest, ClosingFreesEverything) {
    for (int cycle = 0; cycle < 20; ++cycle) {
        ASSERT_EQ(error_of_open(), "");
        sessions.clear();
        ASSERT_TRUE(fake.live().empty()) << fake.live().begin()->first;
    }
}

TEST(EfaApi, OpensOrNamesWhatIsMissing) {
    try {
        open_efa("/nowhere/libefa.so.1");
        FAIL() << "no error";
    } catch (const DeviceError& error) {
        EXPECT_NE(error.message().find("/nowhere/libefa.so.1"), std::string::npos);
    }
}

}  // namespace
}  // namespace plait
