#include "runtime/session/session.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/session/bind.h"
#include "tests/runtime/session/cuda_session_fixture.h"

namespace plait {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

FakeDriverOptions with_parameters(const Artifact& artifact) {
    FakeDriverOptions options;
    options.parameter_bytes = static_cast<std::size_t>(artifact.manifest.args_bytes);
    return options;
}

TEST(CudaSession, LaunchCarriesEverythingTheKernelNeeds) {
    const Artifact artifact = fake_artifact(1, 1);
    FakeDriver fake(with_parameters(artifact));
    FakeCluster cluster(1, 1);
    cluster.create(fake);
    cluster.attach(artifact);
    ASSERT_EQ(cluster.first_error(), "");
    FakeTensors tensors;
    fake.on_launch = [&](const FakeLaunch& call) {
        const Launch launch = launch_in(call);
        for (std::uint64_t i = 0; i < sizeof(DeviceState) / 8; ++i)
            EXPECT_EQ(reinterpret_cast<const u64*>(launch.state)[i], 0u);
        for (std::uint64_t i = 0; i < launch.artifact_offset + artifact.manifest.workspace_bytes; ++i)
            ASSERT_EQ(launch.workspace[0][i], 0);
        EXPECT_EQ(launch.host->abort, 0u);
        for (std::uint64_t slot = 0; slot < launch.fifo_slots; ++slot) EXPECT_EQ(launch.fifo[slot].sequence, 0u);
        EXPECT_EQ(launch.arrivals[launch.arrival_slots - 1].signal_value, 0u);
        TensorMap map;
        std::memcpy(&map, call.args.data() + artifact.manifest.maps[1].args_offset, sizeof(map));
        EXPECT_EQ(map.word[0], reinterpret_cast<u64>(launch.workspace[0]) + launch.artifact_offset + 4096);
        EXPECT_EQ(map.word[2], 100u);
    };
    cluster.sessions[0]->launch(0, 100, tensors.views(100, 100), stream_number(0x50));
    ASSERT_EQ(fake.launches().size(), 1u);
    const FakeLaunch call = fake.launches()[0];
    EXPECT_EQ(call.grid, 132u);
    EXPECT_EQ(call.block, 384u);
    EXPECT_EQ(call.shared_bytes, 200'000u);
    EXPECT_TRUE(call.cooperative);
    EXPECT_EQ(call.stream, stream_number(0x50));
    const Launch launch = launch_in(call);
    EXPECT_EQ(launch.m, 100);
    EXPECT_EQ(launch.world, 1);
    EXPECT_GE(launch.artifact_offset, session_area_bytes(1));
    EXPECT_EQ(launch.signature, launch_signature(artifact.manifest, 100));
    EXPECT_EQ(launch.entry_deadline_ns, cluster.options.entry_deadline_ns);
    EXPECT_EQ(launch.wait_deadline_ns, cluster.options.wait_deadline_ns);
    EXPECT_EQ(cluster.sessions[0]->launches(), 1u);
    cluster.sessions[0]->check();
}

// Of an odd number of SMs one stays idle, of a device whose GPCs are odd several.
TEST(CudaSession, ClustersAreLaunchedWholeAndAsManyAsRunAtOnce) {
    Artifact artifact = fake_artifact(1, 1);
    artifact.manifest.cluster = artifact.manifest.min_ctas = 2;
    for (const auto& [sms, clusters, grid] : {std::tuple{132, 66, 132u}, {131, 65, 130u}, {132, 60, 120u}, {15, 9, 14u}, {2, 1, 2u}}) {
        FakeDriverOptions options = with_parameters(artifact);
        options.sms = sms, options.clusters = clusters;
        FakeDriver fake(options);
        FakeCluster cluster(1, 1);
        cluster.create(fake);
        cluster.attach(artifact);
        ASSERT_EQ(cluster.first_error(), "");
        FakeTensors tensors;
        cluster.sessions[0]->launch(0, 7, tensors.views(7, 7), nullptr);
        ASSERT_EQ(fake.launches().size(), 1u);
        EXPECT_EQ(fake.launches()[0].grid, grid) << sms << " SMs";
        EXPECT_FALSE(fake.launches()[0].cooperative);
    }
}

TEST(CudaSession, LaunchNeitherAllocatesNorSynchronises) {
    const Artifact artifact = fake_artifact(1, 1);
    FakeDriver fake(with_parameters(artifact));
    FakeCluster cluster(1, 1);
    cluster.create(fake);
    cluster.attach(artifact);
    const std::vector<std::string> heavy = {
        "memory_alloc",       "memory_create",     "memory_map",      "host_alloc", "module_load", "function_load",
        "stream_synchronize", "event_synchronize", "set_bytes_async", "copy_async", "event_create"};
    std::vector<int> before;
    for (const auto& member : heavy) before.push_back(fake.calls(member));
    FakeTensors tensors;
    cluster.sessions[0]->launch(0, 7, tensors.views(7, 7), nullptr);
    for (std::size_t i = 0; i < heavy.size(); ++i) EXPECT_EQ(fake.calls(heavy[i]), before[i]) << heavy[i];
}

// Two event nodes a launch made a graph of 28 us kernels half as fast again.
TEST(CudaSession, OnlyLaunchesThatTouchTheSessionsStateAreOrdered) {
    for (bool state : {true, false}) {
        Artifact artifact = fake_artifact(1, 1);
        artifact.manifest.session_state = state;
        FakeDriver fake(with_parameters(artifact));
        FakeTensors tensors;
        int synchronised = 0;
        {
            FakeCluster cluster(1, 1);
            cluster.create(fake);
            cluster.attach(artifact);
            const int records = fake.calls("event_record"), waits = fake.calls("stream_wait_event");
            cluster.sessions[0]->launch(0, 7, tensors.views(7, 7), nullptr);
            EXPECT_EQ(fake.calls("event_record") - records, state ? 1 : 0);
            EXPECT_EQ(fake.calls("stream_wait_event") - waits, state ? 1 : 0);
            synchronised = fake.calls("context_synchronize");
        }
        EXPECT_EQ(fake.calls("context_synchronize") - synchronised, state ? 0 : 1) << "the end waits for what no event covers";
    }
}

TEST(CudaSession, RanksAddressEachOthersWorkspaces) {
    const Artifact artifact = fake_artifact(1, 2);
    FakeDriver fake(with_parameters(artifact));
    FakeCluster cluster(1, 2);
    cluster.create(fake);
    cluster.attach(artifact);
    ASSERT_EQ(cluster.first_error(), "");
    // Every rank's kernel says so in every other's workspace.
    fake.on_launch = [](const FakeLaunch& call) {
        const Launch launch = launch_in(call);
        for (int peer = 0; peer < 2; ++peer)
            launch.workspace[peer][launch.artifact_offset + 8 * launch.rank] = static_cast<u8>(10 + launch.rank);
    };
    FakeTensors tensors[2];
    cluster.on_ranks([&](int rank) { cluster.sessions[rank]->launch(0, 4, tensors[rank].views(2, 4), nullptr); });
    ASSERT_EQ(cluster.first_error(), "");
    for (const FakeLaunch& call : fake.launches()) {
        const Launch launch = launch_in(call);
        EXPECT_EQ(launch.local_ranks, 2);
        const u8* own = launch.workspace[launch.local_rank] + launch.artifact_offset;
        EXPECT_EQ(own[0], 10);
        EXPECT_EQ(own[8], 11);
        EXPECT_EQ(call.grid, 132u);
    }
}

TEST(CudaSession, RanksOnOneGpuShareItsSms) {
    const Artifact artifact = fake_artifact(1, 2);
    FakeDriver fake(with_parameters(artifact));
    FakeCluster cluster(1, 2);
    cluster.devices = 1;
    cluster.create(fake);
    cluster.attach(artifact);
    FakeTensors tensors;
    cluster.sessions[0]->launch(0, 4, tensors.views(2, 4), nullptr);
    EXPECT_EQ(fake.launches().at(0).grid, 66u);
    EXPECT_FALSE(fake.launches().at(0).cooperative);
}

TEST(CudaSession, BudgetsBeyondTheGpuAreRefusedWithNumbers) {
    FakeDriver fake;
    FakeCluster cluster(1, 2);
    cluster.devices = 1;
    cluster.options.sm_budget = 67;
    cluster.create(fake);
    EXPECT_TRUE(contains(cluster.errors[0], "ranks 0, 1 share a GPU of 132 SMs and want 134 CTAs together"))
        << cluster.errors[0];
    EXPECT_TRUE(fake.live().empty());
}

TEST(CudaSession, ChainsLaunchesOverStreamsByOneEvent) {
    const Artifact artifact = fake_artifact(1, 1);
    FakeDriver fake(with_parameters(artifact));
    FakeCluster cluster(1, 1);
    cluster.create(fake);
    cluster.attach(artifact);
    fake.clear_log();
    FakeTensors tensors;
    cluster.sessions[0]->launch(0, 1, tensors.views(1, 1), stream_number(0xa0));
    cluster.sessions[0]->launch(0, 1, tensors.views(1, 1), stream_number(0xb0));
    const auto log = fake.log();
    ASSERT_EQ(log.size(), 6u);
    EXPECT_EQ(log[1], "launch 0xa0");
    EXPECT_TRUE(contains(log[2], "record 0xa0"));
    EXPECT_TRUE(contains(log[3], "wait 0xb0"));
    EXPECT_EQ(log[2].substr(log[2].find("event")), log[3].substr(log[3].find("event")));
    EXPECT_EQ(log[4], "launch 0xb0");
}

TEST(CudaSession, CaptureRecordsExternalEventsAndForbidsNothing) {
    const Artifact artifact = fake_artifact(1, 1);
    FakeDriver fake(with_parameters(artifact));
    FakeCluster cluster(1, 1);
    cluster.create(fake);
    cluster.attach(artifact);
    fake.set_capturing(stream_number(0xc0), true);
    fake.clear_log();
    FakeTensors tensors;
    cluster.sessions[0]->launch(0, 1, tensors.views(1, 1), stream_number(0xc0));
    cluster.sessions[0]->check();  // in the capturing thread
    for (std::size_t i : {0u, 2u}) EXPECT_TRUE(contains(fake.log().at(i), "external")) << fake.log()[i];
    EXPECT_TRUE(fake.launches().at(0).captured);
    EXPECT_EQ(fake.capture_violations(), 0);
    fake.set_capturing(stream_number(0xc0), false);
    cluster.sessions[0]->launch(0, 1, tensors.views(1, 1), stream_number(0xc0));
    EXPECT_FALSE(contains(fake.log().back(), "external"));
}

TEST(CudaSession, FirstUseInsideACaptureIsRefused) {
    const Artifact artifact = fake_artifact(1, 1);
    FakeDriver fake(with_parameters(artifact));
    FakeCluster cluster(1, 1);
    cluster.create(fake);
    fake.set_capturing(stream_number(0xc0), true);
    FakeTensors tensors;
    try {
        cluster.sessions[0]->launch(0, 1, tensors.views(1, 1), stream_number(0xc0));
        FAIL();
    } catch (const ArgumentError& error) {
        EXPECT_TRUE(contains(error.what(), "artifact 0 is not attached")) << error.what();
        EXPECT_TRUE(contains(error.hint(), "outside of any capture"));
    }
    try {
        cluster.sessions[0]->attach(artifact);
        FAIL();
    } catch (const DeviceError& error) {
        EXPECT_TRUE(contains(error.hint(), "attach artifacts before the capture")) << error.hint();
    }
    fake.set_capturing(stream_number(0xc0), false);
    EXPECT_EQ(cluster.sessions[0]->attach(artifact), 0);
}

TEST(CudaSession, SecondArtifactGetsAnAreaOfItsOwn) {
    const Artifact small = fake_artifact(1, 1), large = fake_artifact(1, 1, 3u << 20);
    FakeDriver fake(with_parameters(small));
    FakeCluster cluster(1, 1);
    cluster.create(fake);
    EXPECT_EQ(cluster.sessions[0]->attach(small), 0);
    EXPECT_EQ(cluster.sessions[0]->attach(large), 1);
    FakeTensors tensors;
    for (int artifact : {0, 1}) cluster.sessions[0]->launch(artifact, 1, tensors.views(1, 1), nullptr);
    const Launch first = launch_in(fake.launches()[0]), second = launch_in(fake.launches()[1]);
    EXPECT_GE(second.artifact_offset, first.artifact_offset + small.manifest.workspace_bytes);
    EXPECT_EQ(first.workspace[0], second.workspace[0]);
    EXPECT_EQ(second.workspace[0][second.artifact_offset + large.manifest.workspace_bytes - 1], 0);
}

TEST(CudaSession, ArtifactsThatDoNotFitAreRefusedWithNumbers) {
    const auto refusal = [](auto edit) {
        Artifact artifact = fake_artifact(1, 1);
        FakeDriverOptions device = with_parameters(artifact);
        edit(artifact, device);
        FakeDriver fake(device);
        FakeCluster cluster(1, 1);
        cluster.create(fake);
        EXPECT_EQ(cluster.first_error(), "");
        cluster.attach(artifact);
        EXPECT_EQ(fake.live().count("module"), 0u);
        return cluster.errors[0];
    };
    using Options = FakeDriverOptions;
    EXPECT_TRUE(contains(refusal([](Artifact& a, Options&) { a.manifest.min_ctas = 133; }),
                         "needs 133 CTAs at least, a launch of this session has 132"));
    const auto two = [](Artifact& a) { a.manifest.cluster = a.manifest.min_ctas = 2; };
    EXPECT_TRUE(contains(refusal([&](Artifact& a, Options& d) { two(a), d.sms = 1; }),
                         "needs 2 CTAs at least, a launch of this session has 1"));
    EXPECT_TRUE(contains(refusal([&](Artifact& a, Options& d) { two(a), d.clusters = 0; }),
                         "no cluster of 2 CTAs of 384 threads and 200000 bytes of shared memory fits on the 132 SMs of device 0"));
    EXPECT_TRUE(contains(refusal([](Artifact& a, Options&) { a.manifest.shared_bytes = 232449; }),
                         "232449 bytes of shared memory a CTA, device 0 allows 232448"));
    EXPECT_TRUE(contains(refusal([](Artifact&, Options& d) { d.occupancy = 0; }), "132 SMs hold 0 each"));
    EXPECT_TRUE(contains(refusal([](Artifact&, Options& d) { d.major = 10; }),
                         "is for sm_90a, device 0 has compute capability 10.0"));
    EXPECT_TRUE(
        contains(refusal([](Artifact&, Options& d) { d.parameter_bytes = 64; }), "takes 64 bytes of arguments"));
    EXPECT_TRUE(contains(refusal([](Artifact& a, Options&) { a.code = "ptx"; }), "loading the code of copy"));
    EXPECT_TRUE(contains(refusal([](Artifact& a, Options&) { a.code.clear(); }), "carries no code"));
    EXPECT_TRUE(contains(refusal([](Artifact& a, Options&) { a.manifest.world = 2; }), "compiled for 1x1"));
    EXPECT_TRUE(contains(refusal([](Artifact& a, Options&) { a.manifest.workspace_bytes = 16u << 20; }),
                         "8388608 were reserved"));
}

TEST(CudaSession, FailureOfOneRankReachesAllRanks) {
    const Artifact artifact = fake_artifact(1, 2);
    FakeDriver fake(with_parameters(artifact));
    FakeCluster cluster(1, 2);
    cluster.create(fake);
    fake.fail("module_load", cu::kErrorOutOfMemory);  // of the rank that comes first
    cluster.attach(artifact);
    int told = 0;
    for (const std::string& error : cluster.errors) {
        EXPECT_TRUE(contains(error, "loading the code of copy: CUDA_ERROR_OUT_OF_MEMORY")) << error;
        told += contains(error, "attaching copy failed: rank ");
    }
    EXPECT_EQ(told, 1);  // the other rank; the one that failed has its own error
    cluster.attach(artifact);
    EXPECT_EQ(cluster.first_error(), "");
}

TEST(CudaSession, RanksThatAttachDifferentArtifactsAreTold) {
    const Artifact artifact = fake_artifact(1, 2);
    FakeDriver fake(with_parameters(artifact));
    FakeCluster cluster(1, 2);
    cluster.create(fake);
    cluster.on_ranks([&](int rank) {
        Artifact own = artifact;
        if (rank == 1) own.manifest.semantics = "another";
        cluster.sessions[rank]->attach(own);
    });
    EXPECT_TRUE(contains(cluster.errors[0], "rank 1 attaches another artifact than this rank")) << cluster.errors[0];
    EXPECT_TRUE(contains(cluster.errors[1], "rank 0 attaches another artifact than this rank")) << cluster.errors[1];
}

TEST(CudaSession, BadArgumentsEnqueueNothing) {
    const Artifact artifact = fake_artifact(1, 1);
    FakeDriver fake(with_parameters(artifact));
    FakeCluster cluster(1, 1);
    cluster.create(fake);
    cluster.attach(artifact);
    fake.clear_log();
    FakeTensors tensors;
    EXPECT_THROW(cluster.sessions[0]->launch(0, 257, tensors.views(257, 257), nullptr), ArgumentError);
    EXPECT_THROW(cluster.sessions[0]->launch(0, 4, tensors.views(3, 4), nullptr), ArgumentError);
    EXPECT_THROW(cluster.sessions[0]->launch(1, 4, tensors.views(4, 4), nullptr), ArgumentError);
    EXPECT_TRUE(fake.log().empty());
    EXPECT_EQ(cluster.sessions[0]->launches(), 0u);
}

TEST(CudaSession, RanksOfDifferentTopologiesDoNotMeet) {
    FakeDriver fake;
    FakeCluster cluster(1, 2);
    cluster.on_ranks([&](int rank) {
        Topology own = cluster.topology;
        own.sms += rank;
        Session::create(own, rank, cluster.rendezvous, fake.table(), cluster.options);
    });
    EXPECT_TRUE(contains(cluster.errors[0], "rank 1 has another topology than rank 0")) << cluster.errors[0];
}

TEST(CudaSession, TwoSessionsOfOneProcessDoNotMeet) {
    const Artifact artifact = fake_artifact(1, 2);
    FakeDriver fake(with_parameters(artifact));
    FakeCluster one(1, 2), two(1, 2);
    two.rendezvous = make_prefixed_rendezvous(one.rendezvous, "second/");
    one.create(fake);
    two.create(fake);
    one.attach(artifact);
    two.attach(artifact);
    EXPECT_EQ(one.first_error() + two.first_error(), "");
    FakeTensors tensors;
    for (FakeCluster* cluster : {&one, &two}) cluster->sessions[0]->launch(0, 4, tensors.views(2, 4), nullptr);
    EXPECT_NE(launch_in(fake.launches()[0]).state, launch_in(fake.launches()[1]).state);
    EXPECT_NE(launch_in(fake.launches()[0]).workspace[0], launch_in(fake.launches()[1]).workspace[0]);
    one.sessions[0]->abort();
    two.sessions[0]->check();
}

TEST(CudaSession, HundredSessionsLeaveNothingBehind) {
    const Artifact artifact = fake_artifact(2, 1);
    FakeDriver fake(with_parameters(artifact));
    FakeTensors tensors[2];
    for (int round = 0; round < 100; ++round) {
        FakeCluster cluster(2, 1);
        cluster.create(fake);
        cluster.attach(artifact);
        cluster.on_ranks([&](int rank) { cluster.sessions[rank]->launch(0, 4, tensors[rank].views(2, 4), nullptr); });
        ASSERT_EQ(cluster.first_error(), "") << "round " << round;
    }
    for (const auto& [kind, count] : fake.live()) ADD_FAILURE() << count << " of " << kind;
}

// Whichever call of the driver fails while a session is made and an artifact attached: a typed error, and nothing left.
TEST(CudaSession, EveryFailingDriverCallIsAnErrorAndLeavesNothing) {
    const Artifact artifact = fake_artifact(1, 1);
    for (const char* member : {"init",
                               "device_get",
                               "device_attribute",
                               "primary_context_retain",
                               "context_push",
                               "address_reserve",
                               "memory_create",
                               "memory_map",
                               "memory_set_access",
                               "memory_alloc",
                               "host_alloc",
                               "host_device_pointer",
                               "set_bytes_async",
                               "stream_create",
                               "stream_synchronize",
                               "event_create",
                               "event_record",
                               "module_load",
                               "module_function",
                               "function_load",
                               "function_parameter",
                               "function_set_attribute",
                               "occupancy"}) {
        int failures = 0;
        for (int call = 0;; ++call) {
            FakeDriver fake(with_parameters(artifact));
            fake.fail(member, cu::kErrorOutOfMemory, call);
            std::string error;
            {
                FakeCluster cluster(1, 1);
                cluster.create(fake);
                if (cluster.first_error().empty()) cluster.attach(artifact);
                error = cluster.first_error();
            }
            for (const auto& [kind, count] : fake.live())
                ADD_FAILURE() << member << " call " << call << ": " << count << " of " << kind;
            if (error.empty()) break;  // it was called no more often than that
            EXPECT_TRUE(contains(error, "CUDA_ERROR_OUT_OF_MEMORY")) << member << ": " << error;
            ++failures;
        }
        EXPECT_GT(failures, 0) << member << " is never called";
    }
}

}  // namespace
}  // namespace plait
