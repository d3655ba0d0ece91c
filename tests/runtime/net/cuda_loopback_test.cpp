#include "runtime/net/cuda_loopback.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/base/error.h"
#include "tests/runtime/device/fake_driver.h"
#include "tests/runtime/net/meeting.h"

namespace plait {
namespace {

using testing::Meeting;

struct CudaLoopbackTest : ::testing::TestWithParam<NetworkContract> {
    FakeDriver fake;
    Meeting meeting;
    std::vector<unsigned char> memories[2] = {std::vector<unsigned char>(1 << 16), std::vector<unsigned char>(1 << 16)};
    std::vector<std::unique_ptr<ProxySession>> sessions;
    std::vector<std::uint64_t> completed;
    std::vector<Arrival> arrivals;

    CudaLoopbackOptions options_of(int rank, NetworkContract contract) {
        CudaLoopbackOptions options;
        options.driver = fake.table();
        fake.table()->primary_context_retain(&options.context, rank);
        options.rank = rank;
        options.world = 2;
        for (auto& memory : memories) options.bases.push_back(reinterpret_cast<cu::DevicePointer>(memory.data()));
        options.workspace_bytes = 1 << 16;
        options.contract = contract;
        options.exchange = meeting.exchange();
        options.queue_depth = 4;
        options.split_bytes = 1024;
        return options;
    }
    void open(NetworkContract contract) {
        sessions = meeting.make(
            2, [&](std::uint32_t rank) { return make_cuda_loopback(options_of(static_cast<int>(rank), contract)); });
    }
    static PutRequest put(std::uint64_t id, std::uint64_t bytes, std::uint64_t flag = 64) {
        PutRequest request;
        request.id = id;
        request.destination_rank = 1;
        request.source_offset = 1000;
        request.destination_offset = 20'000;
        request.bytes = bytes;
        request.signal_offset = flag;
        request.signal_value = id + 1;
        return request;
    }
    void step(int rounds) {
        for (int round = 0; round < rounds; ++round)
            for (auto& session : sessions) session->step(&completed, &arrivals);
    }
    u64 flag(std::uint64_t offset = 64) {
        u64 value;
        std::memcpy(&value, memories[1].data() + offset, sizeof(value));
        return value;
    }
};

TEST_P(CudaLoopbackTest, MovesPayloadAndAnnouncesIt) {
    open(GetParam());
    for (std::size_t byte = 0; byte < 9000; ++byte)
        memories[0][1000 + byte] = static_cast<unsigned char>(byte * 11 + 3);
    ASSERT_TRUE(sessions[0]->try_post(put(5, 9000)));
    step(4);
    EXPECT_EQ(completed, std::vector<std::uint64_t>{5});
    EXPECT_EQ(std::memcmp(memories[0].data() + 1000, memories[1].data() + 20'000, 9000), 0);
    if (GetParam() == NetworkContract::Ordered) {
        EXPECT_EQ(flag(), 6u);
        EXPECT_TRUE(arrivals.empty());
    } else {
        EXPECT_EQ(flag(), 0u);
        ASSERT_EQ(arrivals.size(), 1u);
        EXPECT_EQ(arrivals[0].signal_value, 6u);
    }
}

TEST_P(CudaLoopbackTest, SignalAlone) {
    open(GetParam());
    ASSERT_TRUE(sessions[0]->try_post(put(0, 0)));
    step(4);
    EXPECT_EQ(completed.size(), 1u);
    EXPECT_EQ(GetParam() == NetworkContract::Ordered ? flag() : arrivals.at(0).signal_value, 1u);
}

TEST_P(CudaLoopbackTest, QueueIsBoundedAndRunsForLong) {
    open(GetParam());
    std::uint64_t next = 0;
    while (next < 500) {
        if (sessions[0]->try_post(put(next, 2000)))
            ++next;
        else
            step(1);
    }
    step(20);
    EXPECT_EQ(completed.size(), 500u);
    EXPECT_GT(sessions[0]->counters().queue_full, 0u);
    EXPECT_EQ(sessions[1]->counters().arrivals, GetParam() == NetworkContract::Ordered ? 0u : 500u);
    // One flag's values in the order they were posted.
    for (std::size_t index = 1; index < arrivals.size(); ++index)
        ASSERT_LT(arrivals[index - 1].signal_value, arrivals[index].signal_value);
}

TEST_P(CudaLoopbackTest, FailedCopyNamesRankPeerNicAndStream) {
    open(GetParam());
    fake.fail("copy_async", cu::kErrorLaunchFailed);
    try {
        sessions[0]->try_post(put(7, 512));
        FAIL() << "no error";
    } catch (const TransportError& error) {
        EXPECT_NE(
            error.message().find("put 7 of rank 0 to rank 1 failed: nic loop0, queue pair 0, status cuMemcpyAsync"),
            std::string::npos)
            << error.message();
    }
}

TEST_P(CudaLoopbackTest, PrimesEveryPathAndGivesEverythingBack) {
    open(GetParam());
    EXPECT_GE(fake.calls("copy_async"), 8);  // two ranks, two peers, two streams
    const auto memory_before = memories[0];
    EXPECT_EQ(memory_before, std::vector<unsigned char>(1 << 16));
    sessions.clear();
    for (const auto& [kind, count] : fake.live()) EXPECT_NE(kind, "stream") << count;
    for (const auto& [kind, count] : fake.live()) EXPECT_NE(kind, "event") << count;
}

// The owner unmaps the workspaces when the session is gone.
TEST_P(CudaLoopbackTest, EndsOnlyAfterItsCopies) {
    open(GetParam());
    memories[0][1000] = 77;
    fake.hold_copies(true);
    ASSERT_TRUE(sessions[0]->try_post(put(0, 512)));
    step(2);
    EXPECT_TRUE(completed.empty());
    sessions.clear();
    EXPECT_EQ(fake.abandoned_copies(), 0);
    EXPECT_EQ(memories[1][20'000], 77);
}

// A proxy stops when nothing is under way; an announcement that found no room must count as under way.
TEST_P(CudaLoopbackTest, APutIsCompleteOnlyOnceItIsAnnounced) {
    if (GetParam() == NetworkContract::Ordered) return;  // announces with the copy
    open(GetParam());
    std::uint64_t posted = 0;
    for (int round = 0; round < 2000; ++round) {  // the receiver never looks: its mailbox runs full
        if (sessions[0]->try_post(put(posted, 16))) ++posted;
        sessions[0]->step(&completed, &arrivals);
    }
    ASSERT_LT(posted, 2000u);
    EXPECT_EQ(completed.size() + 4, posted);  // what fills the queue has been copied, but nobody knows of it
    step(10);
    EXPECT_EQ(completed.size(), posted);
    EXPECT_EQ(arrivals.size(), posted);
}

TEST_P(CudaLoopbackTest, ChecksBoundsAndReach) {
    open(GetParam());
    PutRequest request = put(0, 512);
    request.destination_offset = (1 << 16) - 100;
    EXPECT_THROW(sessions[0]->try_post(request), TransportError);
    Meeting alone;
    CudaLoopbackOptions options = options_of(0, NetworkContract::Ordered);
    options.bases[1] = 0;
    EXPECT_THROW(make_cuda_loopback(options)->try_post(put(0, 8)), TransportError);
    options.bases.pop_back();
    EXPECT_THROW(make_cuda_loopback(options), ArgumentError);
}
INSTANTIATE_TEST_SUITE_P(Networks, CudaLoopbackTest,
                         ::testing::Values(NetworkContract::Ordered, NetworkContract::Unordered));

}  // namespace
}  // namespace plait
