#include "runtime/net/ibverbs.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "runtime/base/error.h"
#include "runtime/net/ibverbs_connection.h"
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

struct RcTest : ::testing::Test {
    FakeVerbs fake;
    Meeting meeting;
    std::vector<unsigned char> memories[2] = {std::vector<unsigned char>(1 << 16), std::vector<unsigned char>(1 << 16)};
    std::vector<std::unique_ptr<ProxySession>> sessions;
    std::vector<std::uint64_t> completed;
    std::vector<Arrival> arrivals;

    RcOptions options_of(std::uint32_t rank) {
        RcOptions options;
        options.rank = rank;
        options.world = 2;
        options.peers = {1 - rank};
        options.workspace = {memories[rank].data(), memories[rank].size()};
        options.exchange = meeting.exchange();
        return options;
    }
    void open(std::function<void(RcOptions*)> change = [](RcOptions*) {}) {
        const auto api = fake.verbs();
        sessions = meeting.make(2, [&](std::uint32_t rank) {
            RcOptions options = options_of(rank);
            change(&options);
            return make_rc_session(api, options);
        });
    }
    std::string error_of_open(std::function<void(RcOptions*)> change = [](RcOptions*) {}) {
        try {
            open(change);
        } catch (const Error& error) {
            return error.message();
        }
        return "";
    }
    static PutRequest put(std::uint64_t id, std::uint64_t bytes) {
        PutRequest request;
        request.id = id;
        request.destination_rank = 1;
        request.destination_offset = 4096;
        request.bytes = bytes;
        request.signal_offset = 64;
        request.signal_value = id + 1;
        return request;
    }
    void step(int rounds) {
        for (int round = 0; round < rounds; ++round) sessions[0]->step(&completed, &arrivals);
    }
    std::string error_of_step(int rounds) {
        try {
            step(rounds);
        } catch (const TransportError& error) {
            return error.message();
        }
        return "";
    }
};

TEST_F(RcTest, BatchesOneDoorbellAndOneCompletionPerStep) {
    open();
    for (std::uint64_t id = 0; id < 8; ++id) ASSERT_TRUE(sessions[0]->try_post(put(id, 100)));
    EXPECT_EQ(fake.doorbells, 0u);
    step(1);
    EXPECT_EQ(fake.doorbells, 1u);
    EXPECT_EQ(fake.work_requests, 16u);
    EXPECT_EQ(fake.signalled, 1u);
    step(200);
    EXPECT_EQ(completed, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(*reinterpret_cast<u64*>(memories[1].data() + 64), 8u);
    EXPECT_TRUE(arrivals.empty());  // RC writes the flag itself
}

TEST_F(RcTest, CountsItsOwnQueueWhateverTheProviderTakes) {
    open([](RcOptions* options) { options->send_depth = 4; });
    EXPECT_TRUE(sessions[0]->try_post(put(0, 10)));
    EXPECT_TRUE(sessions[0]->try_post(put(1, 10)));
    EXPECT_FALSE(sessions[0]->try_post(put(2, 10)));
    EXPECT_EQ(sessions[0]->counters().queue_full, 1u);
    step(100);
    EXPECT_TRUE(sessions[0]->try_post(put(2, 10)));
}

TEST_F(RcTest, GoesOnAfterTheProviderRefusedPartOfABatch) {
    fake.refuse_every = 3;
    open();
    for (std::uint64_t id = 0; id < 20; ++id) ASSERT_TRUE(sessions[0]->try_post(put(id, 32)));
    step(2000);
    EXPECT_EQ(completed.size(), 20u);
    EXPECT_EQ(fake.work_requests, 40u);  // nothing twice, nothing lost
}

// The part that it took had no signalled work request: it never gave its room back.
TEST_F(RcTest, GoesOnWhereTheProviderHoldsLessThanABatch) {
    fake.provider_depth = 10;
    open([](RcOptions* options) {
        options->send_depth = 16;
        options->max_message_bytes = 64;
    });
    ASSERT_TRUE(sessions[0]->try_post(put(0, 64 * 12)));  // 13 work requests
    step(2000);
    EXPECT_EQ(completed.size(), 1u);
    EXPECT_EQ(fake.work_requests, 13u);
}

TEST_F(RcTest, FailedCompletionNamesRankPeerNicQueuePairAndStatus) {
    open();
    fake.break_next_send(IBV_WC_RETRY_EXC_ERR);
    ASSERT_TRUE(sessions[0]->try_post(put(41, 100)));
    const std::string message = error_of_step(100);
    EXPECT_NE(message.find("put 41 of rank 0 to rank 1 failed: nic fake0, queue pair 10"), std::string::npos)
        << message;
    EXPECT_NE(message.find("status transport retry counter exceeded (vendor error 0x81)"), std::string::npos)
        << message;
}

TEST_F(RcTest, LostPeerIsNoticedWithoutTraffic) {
    open([](RcOptions* options) { options->keepalive_ns = 1; });
    step(1000);
    EXPECT_GT(fake.work_requests, 0u);  // empty writes, one at a time
    EXPECT_LT(fake.work_requests, 8u);
    EXPECT_EQ(sessions[0]->counters().posted, 0u);
    fake.break_next_send(IBV_WC_RETRY_EXC_ERR);
    EXPECT_NE(error_of_step(1000).find("connection of rank 0 to rank 1 failed: nic fake0"), std::string::npos);
    EXPECT_TRUE(completed.empty());
}

TEST_F(RcTest, FailedPostIsNoRetry) {
    open();
    fake.fail("post", EINVAL);
    ASSERT_TRUE(sessions[0]->try_post(put(3, 100)));
    EXPECT_NE(error_of_step(1).find("put 3 of rank 0 to rank 1 failed"), std::string::npos);
}

TEST_F(RcTest, PeerThatClaimsMoreThanItRegisteredIsRefusedByTheNic) {
    meeting.tamper = [](const std::string&, const std::string& value) {
        std::string text = value;
        if (const auto at = text.find(" 65536 "); at != std::string::npos) text.replace(at, 7, " 999999 ");
        return text;
    };
    open();
    PutRequest request = put(0, 4096);
    request.destination_offset = 100'000;
    ASSERT_TRUE(sessions[0]->try_post(request));
    EXPECT_NE(error_of_step(100).find("remote access error"), std::string::npos);
}

TEST_F(RcTest, NothingOutsideTheWorkspaceIsPosted) {
    open();
    PutRequest request = put(0, 64);
    request.destination_offset = (1 << 16) - 63;
    EXPECT_THROW(sessions[0]->try_post(request), TransportError);
    request = put(0, 64);
    request.destination_rank = 0;  // not a peer of itself
    EXPECT_THROW(sessions[0]->try_post(request), TransportError);
    step(1);
    EXPECT_EQ(fake.work_requests, 0u);
}

TEST_F(RcTest, RegistersWithoutRelaxedOrderingAndConnectsAtTheSmallerMtu) {
    meeting.tamper = [](const std::string& key, const std::string& value) {
        std::string text = value;
        if (key.find("/at/1/") != std::string::npos) text.replace(0, 7, "rc1 0 3");  // rank 1 says 1024
        return text;
    };
    open();
    for (int access : fake.registered_access) EXPECT_EQ(access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    int smaller = 0;
    for (const ibv_qp_attr& attributes : fake.modified) smaller += attributes.path_mtu == IBV_MTU_1024;
    EXPECT_EQ(smaller, 1);
}

TEST_F(RcTest, RegistersGpuMemoryByDmabuf) {
    open([](RcOptions* options) { options->dmabuf_fd = 77; });
    EXPECT_EQ(fake.dmabuf_fds, (std::vector<int>{77, 77}));
}

TEST_F(RcTest, EveryStepOfOpeningFailsTypedAndLeavesNothingBehind) {
    for (const char* call : {"query_device", "query_port", "pd", "reg_mr", "cq", "create_qp", "modify_qp", "context"}) {
        for (int nth : {0, 1}) {
            FakeVerbs broken;
            broken.fail(call, EPERM, nth);
            Meeting pair;
            const auto api = broken.verbs();
            EXPECT_THROW(pair.make(2,
                                   [&](std::uint32_t rank) {
                                       RcOptions options = options_of(rank);
                                       options.exchange = pair.exchange();
                                       return make_rc_session(api, options);
                                   }),
                         TransportError)
                << call << " " << nth;
            EXPECT_TRUE(broken.live().empty()) << call << " leaves " << broken.live().begin()->first;
        }
    }
}

TEST_F(RcTest, ClosingFreesEverythingHundredTimes) {
    for (int cycle = 0; cycle < 100; ++cycle) {
        Meeting pair;
        const auto api = fake.verbs();
        auto opened = pair.make(2, [&](std::uint32_t rank) {
            RcOptions options = options_of(rank);
            options.exchange = pair.exchange();
            return make_rc_session(api, options);
        });
        opened.clear();
        ASSERT_TRUE(fake.live().empty()) << fake.live().begin()->first;
    }
}

TEST_F(RcTest, PeerThatNeverComesIsNamed) {
    try {
        make_rc_session(fake.verbs(), options_of(0));
        FAIL() << "no error";
    } catch (const TransportError& error) {
        EXPECT_NE(error.message().find("rc/at/1/0"), std::string::npos);
    }
}

TEST_F(RcTest, RejectsOptionsThatCannotWork) {
    const auto open_with = [&](std::function<void(RcOptions*)> change) {
        RcOptions options = options_of(0);
        change(&options);
        make_rc_session(fake.verbs(), options);
    };
    EXPECT_THROW(open_with([](RcOptions* options) { options->retry_count = 7; }), ArgumentError);
    EXPECT_THROW(open_with([](RcOptions* options) { options->send_depth = 1; }), ArgumentError);
    EXPECT_THROW(open_with([](RcOptions* options) { options->max_message_bytes = 3ull << 30; }), ArgumentError);
    EXPECT_THROW(open_with([](RcOptions* options) { options->peers = {0}; }), ArgumentError);
    EXPECT_THROW(open_with([](RcOptions* options) { options->peers = {1, 1}; }), ArgumentError);
}

TEST(RcEndpointInfo, RoundTripsAndRefusesWhatItCannotRead) {
    RcEndpointInfo info;
    info.address.lid = 7;
    info.address.mtu = IBV_MTU_2048;
    parse_gid("00000000000000000000ffff0a4d0001", &info.address.gid);
    info.queue_pair = 0xffffff;  // 24 bits
    info.workspace_address = ~0ull - 4096;
    info.workspace_bytes = 1ull << 37;
    info.workspace_key = 0xffffffff;
    const RcEndpointInfo read = decode_endpoint(encode_endpoint(info), "rank 1");
    EXPECT_EQ(read.queue_pair, info.queue_pair);
    EXPECT_EQ(read.workspace_address, info.workspace_address);
    EXPECT_EQ(read.workspace_bytes, info.workspace_bytes);
    EXPECT_EQ(read.workspace_key, info.workspace_key);
    EXPECT_EQ(gid_text(read.address.gid), gid_text(info.address.gid));
    for (const char* text : {"", "rc0 1 2", "rc1 0 5 zz 1 2 3 4 5", "rc1 0 5 00000000000000000000ffff0a4d0001 1 2 3 4"})
        EXPECT_THROW(decode_endpoint(text, "rank 1"), TransportError) << text;
}

TEST(Rc, VisibleSignalImpliesVisiblePayloadOver1000Seeds) {
    for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
        FakeVerbs fake(seed);
        fake.refuse_every = seed % 4 == 0 ? 5 : 0;
        ContractCase test;
        test.seed = seed;
        test.ranks = 2 + seed % 2;
        test.puts = 12;
        test.self_puts = false;
        test.make_sessions = [&](const std::vector<MemoryRegion>& workspaces) {
            Meeting meeting;
            const auto world = static_cast<std::uint32_t>(workspaces.size());
            const auto api = fake.verbs();
            return meeting.make(world, [&](std::uint32_t rank) {
                RcOptions options;
                options.rank = rank;
                options.world = world;
                options.peers = testing::others(rank, world);
                options.workspace = workspaces[rank];
                options.exchange = meeting.exchange();
                options.max_message_bytes = seed % 2 ? 300 : 4096;
                options.send_depth = 8;
                return make_rc_session(api, options);
            });
        };
        const ContractOutcome outcome = ContractWorld(test).run();
        ASSERT_TRUE(outcome.finished) << "seed " << seed;
        ASSERT_TRUE(outcome.violations.empty()) << "seed " << seed << ": " << outcome.violations.front();
    }
}

}  // namespace
}  // namespace plait
