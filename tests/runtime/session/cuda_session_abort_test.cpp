// Sessions that end: what the caller is told, what the peers are told, what stands in the outputs.
#include <gtest/gtest.h>

#include <chrono>

#include "runtime/base/error.h"
#include "tests/runtime/session/cuda_session_fixture.h"

namespace plait {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Ranks {
    Artifact artifact;
    FakeDriver fake;
    FakeCluster cluster;
    std::vector<FakeTensors> tensors;

    explicit Ranks(int nodes, int locals)
        : artifact(fake_artifact(nodes, locals)), fake(options_of(artifact)), cluster(nodes, locals), tensors(nodes * locals) {
        cluster.create(fake);
        cluster.attach(artifact);
        EXPECT_EQ(cluster.first_error(), "");
    }
    static FakeDriverOptions options_of(const Artifact& artifact) {
        FakeDriverOptions options;
        options.parameter_bytes = static_cast<std::size_t>(artifact.manifest.args_bytes);
        return options;
    }
    Session& operator[](int rank) { return *cluster.sessions[rank]; }
    void launch(int rank, std::int64_t m = 4) {
        const std::int64_t shard = (m + cluster.world() - 1) / cluster.world();
        (*this)[rank].launch(0, m, tensors[rank].views(std::max<std::int64_t>(std::min(shard, m - rank * shard), 0), m), nullptr);
    }
    // Message and hint of the StallError that `call` throws.
    template <class Call>
    std::string stall_of(Call call) {
        try {
            call();
        } catch (const StallError& error) {
            return error.message() + " | " + error.hint();
        }
        return "no StallError";
    }
    std::string check(int rank) {
        return stall_of([&] { (*this)[rank].check(); });
    }
};

// What a kernel's agent does that gives up, and its relay, but for telling the peers.
void give_up(const Launch& launch, StallRecord record) {
    record.taken = kStallFilled;
    record.rank = static_cast<u64>(launch.rank), record.epoch = 1, record.m = static_cast<u64>(launch.m);
    record.artifact = launch.artifact_offset;
    launch.state->stall = record;
    launch.state->abort = record.cause;
    launch.host->abort = record.cause;
}

StallRecord waits_for(u64 flag) {
    StallRecord record = {};
    record.cause = static_cast<u64>(AbortCause::Wait);
    record.flag = flag, record.expected = 5, record.seen = 4, record.cta = 17, record.work = 3;
    return record;
}

TEST(CudaSessionAbort, StallIsToldWithEverythingAndEndsTheSession) {
    Ranks ranks(1, 2);
    ranks.fake.on_launch = [](const FakeLaunch& call) {
        const Launch launch = launch_in(call);
        give_up(launch, waits_for(launch.artifact_offset + 136));
    };
    ranks.launch(1);
    const std::string said = ranks.check(1);
    EXPECT_TRUE(contains(said, "rank 1, launch 1 of copy (M = 4): role compute, agent loader, CTA 17, tile 3 waits for "
                               "a_ready[1] = 5, sees 4, 10 s after all ranks had entered"))
        << said;
    EXPECT_EQ(ranks.check(1), said);
    EXPECT_EQ(ranks.stall_of([&] { ranks.launch(1); }), said);  // with the first cause, and without a launch
    EXPECT_EQ(ranks.fake.launches().size(), 1u);
}

TEST(CudaSessionAbort, AddressesOfARecordThatNobodyHandedOnAreUnderstood) {
    Ranks ranks(1, 2);
    ranks.fake.on_launch = [](const FakeLaunch& call) {
        const Launch launch = launch_in(call);
        const u64 own = reinterpret_cast<u64>(launch.workspace[launch.local_rank]) + launch.artifact_offset;
        give_up(launch, waits_for(launch.rank == 0 ? own + 144 : reinterpret_cast<u64>(&launch.state->fifo_completed)));
    };
    ranks.launch(0);
    EXPECT_TRUE(contains(ranks.check(0), "waits for a_ready[2] = 5")) << ranks.check(0);
    Ranks others(1, 2);
    others.fake.on_launch = ranks.fake.on_launch;
    others.launch(1);
    EXPECT_TRUE(contains(others.check(1), "waits for fifo_completed = 5")) << others.check(1);
}

TEST(CudaSessionAbort, PeersAreToldOfTheFirstCauseFromTheHostWhereNoRelayDoes) {
    Ranks ranks(1, 2);
    ranks.fake.on_launch = [](const FakeLaunch& call) {
        const Launch launch = launch_in(call);
        if (launch.rank == 1) give_up(launch, waits_for(launch.artifact_offset + 128));
    };
    ranks.launch(1);
    ranks.check(1);
    const std::string said = ranks.check(0);  // it has not launched at all
    EXPECT_TRUE(contains(said, "rank 0 left because of rank 1: rank 1, launch 1 of copy")) << said;
    EXPECT_TRUE(contains(said, "waits for a_ready[0] = 5, sees 4")) << said;
    EXPECT_EQ(ranks.stall_of([&] { ranks.launch(0); }), said);
}

TEST(CudaSessionAbort, AbortReachesThisRanksKernelAndEveryPeer) {
    for (int nodes : {1, 2}) {
        Ranks ranks(nodes, 2);
        ranks.launch(0);
        ranks[0].abort();
        const Launch launch = launch_in(ranks.fake.launches()[0]);
        EXPECT_EQ(launch.host->abort, static_cast<u64>(AbortCause::Host));
        EXPECT_EQ(launch.host->told, 1u);
        EXPECT_EQ(*reinterpret_cast<const u64*>(launch.workspace[1] + abort_word_offset(2 * nodes)), 1u);
        EXPECT_TRUE(contains(ranks.check(0), "rank 0: abort() was called")) << ranks.check(0);
        for (int rank = 1; rank < 2 * nodes; ++rank) {
            EXPECT_TRUE(contains(ranks.check(rank), "left because of rank 0: rank 0: abort() was called")) << rank;
            EXPECT_TRUE(contains(ranks.stall_of([&] { ranks.launch(rank); }), "rank 0: abort() was called")) << rank;
        }
    }
}

TEST(CudaSessionAbort, RanksThatDisagreeAreToldBothValues) {
    Ranks ranks(1, 2);
    ranks.fake.on_launch = [](const FakeLaunch& call) {
        const Launch launch = launch_in(call);
        StallRecord record = {};
        record.cause = static_cast<u64>(AbortCause::Disagree);
        record.peer = static_cast<u64>(1 - launch.rank);
        give_up(launch, record);
        auto* told = reinterpret_cast<StallRecord*>(launch.workspace[1 - launch.rank] + told_offset(2, launch.rank));
        *told = launch.state->stall;  // the relay's part
    };
    ranks.launch(0, 4);
    ranks.launch(1, 8);
    const std::string first = ranks.check(0), second = ranks.check(1);
    EXPECT_TRUE(contains(first, "rank 0 enters copy with M = 4, rank 1 copy with M = 8")) << first;
    EXPECT_TRUE(contains(second, "rank 1 enters copy with M = 8, rank 0 copy with M = 4")) << second;
    EXPECT_TRUE(contains(first, "in the same order with the same M")) << first;
}

TEST(CudaSessionAbort, ALaunchOfADeadSessionFillsTheOutputsWithNan) {
    Ranks ranks(1, 2);
    for (bool capturing : {false, true}) {
        ranks[0].abort();
        ranks.fake.set_capturing(nullptr, capturing);
        std::fill(std::begin(ranks.tensors[0].y), std::end(ranks.tensors[0].y), 7);
        std::fill(std::begin(ranks.tensors[0].x), std::end(ranks.tensors[0].x), 7);
        EXPECT_TRUE(contains(ranks.stall_of([&] { ranks.launch(0); }), "abort()"));
        for (int i = 0; i < 4 * 8; ++i) ASSERT_EQ(ranks.tensors[0].y[i], 0xffff) << i;
        EXPECT_EQ(ranks.tensors[0].y[4 * 8], 7);
        EXPECT_EQ(ranks.tensors[0].x[0], 7);
        EXPECT_EQ(ranks.fake.capture_violations(), 0);
    }
}

// An agent claims the record, then fills it: check() waits for it, and does not wait for ever.
TEST(CudaSessionAbort, ARecordThatIsBeingFilledIsWaitedFor) {
    Ranks ranks(1, 1);
    std::thread late;
    ranks.fake.on_launch = [&](const FakeLaunch& call) {
        const Launch launch = launch_in(call);
        launch.state->stall.taken = 1;
        launch.state->abort = static_cast<u64>(AbortCause::Wait);
        late = std::thread([launch] {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            give_up(launch, waits_for(launch.artifact_offset + 128));
        });
    };
    ranks.launch(0);
    EXPECT_TRUE(contains(ranks.check(0), "a_ready[0] = 5, sees 4"));
    late.join();

    Ranks never(1, 1);
    never.fake.on_launch = [](const FakeLaunch& call) {
        launch_in(call).state->stall.taken = 1;
        launch_in(call).state->abort = static_cast<u64>(AbortCause::Wait);
    };
    never.launch(0);
    const auto started = std::chrono::steady_clock::now();
    EXPECT_NE(never.check(0), "no StallError");
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(4));
}

TEST(CudaSessionAbort, ANewSessionOfTheSameProcessWorks) {
    Ranks ranks(1, 2);
    ranks[1].abort();
    EXPECT_TRUE(contains(ranks.check(0), "abort()"));
    FakeCluster again(1, 2);
    again.create(ranks.fake);
    again.attach(ranks.artifact);
    ASSERT_EQ(again.first_error(), "");
    again.sessions[0]->launch(0, 4, ranks.tensors[0].views(2, 4), nullptr);
    again.sessions[0]->check();
    again.sessions[1]->check();
}

TEST(CudaSessionAbort, AttachOfAPeerThatFailedSaysWhatItDiedOf) {
    Ranks ranks(1, 2);
    ranks[1].abort();
    ranks.check(1);
    const auto started = std::chrono::steady_clock::now();
    try {
        ranks[0].attach(ranks.artifact);
        FAIL();
    } catch (const TransportError& error) {
        EXPECT_TRUE(contains(error.message(), "rank 1 does not come to `attach`: it failed: rank 1: abort() was called"))
            << error.message();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(4));
}

TEST(CudaSessionAbort, CreateNamesTheRanksThatAreMissing) {
    FakeDriver fake;
    FakeCluster cluster(2, 2);
    cluster.options.rendezvous_timeout_ns = 200'000'000;
    cluster.on_ranks([&](int rank) {
        if (rank % 2 == 0) return;
        Session::create(cluster.topology, rank, cluster.rendezvous, fake.table(), cluster.options);
    });
    for (int rank : {1, 3}) {
        EXPECT_TRUE(contains(cluster.errors[rank], "ranks 0, 2 of 4 did not come to `hello` within 200 ms")) << cluster.errors[rank];
    }
    EXPECT_TRUE(fake.live().empty());
}

}  // namespace
}  // namespace plait
