// What a Session on the host refuses, and in which words. Ranks are threads here: each waits for the others.
#include "runtime/session/session.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/base/error.h"
#include "tests/runtime/shm/host_rank.h"

namespace plait::testing {
namespace {

using Two = SmallShape<1, 2>;

HostModule no_code(const Artifact&) { return HostModule{AgGemm<Two, Fault::None>::entry, nullptr}; }

// The error of each of two ranks that do `body`; empty where there is none.
template <class Body>
std::vector<std::string> errors_of_two(Body body) {
    auto meeting = make_process_rendezvous();
    std::vector<std::string> errors(2);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                body(rank, meeting);
            } catch (const Error& error) {
                errors[rank] = error.kind() + ": " + error.message();
            }
        });
    }
    threads.clear();
    return errors;
}

TEST(ShmSession, RanksMayBeThreads) {
    const auto errors = errors_of_two([](int rank, const auto& meeting) {
        HostRank<Two> host(rank, meeting);
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
            host.session->poison_receive_buffers();
            EXPECT_LE(host.launch(200, seed), 1.0);
        }
        EXPECT_EQ(host.session->launches(), 3u);
        host.session->check();
    });
    EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
}

TEST(ShmSession, RefusesNicsThatAreNoLoopback) {
    Topology topology = host_cluster(2, 1);
    topology.nics[0].transport = Transport::Rc;
    try {
        Session::create_on_host(topology, 0, make_process_rendezvous(), no_code, host_options());
        FAIL();
    } catch (const ArgumentError& error) {
        EXPECT_NE(error.message().find("ranks on CPUs reach other nodes through loopback NICs alone"),
                  std::string::npos);
    }
}

TEST(ShmSession, SaysWhenAnArtifactDoesNotFitTheWorkspace) {
    const auto errors = errors_of_two([](int rank, const auto& meeting) {
        SessionOptions options = host_options();
        options.workspace_bytes = 64 << 10;
        HostRank<Two> host(rank, meeting, options);
    });
    for (int rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(errors[rank].find(fmt::format("ArgumentError: rank {}: the workspace would need ", rank)), 0u)
            << errors[rank];
        EXPECT_NE(errors[rank].find(", 65536 are reserved"), std::string::npos) << errors[rank];
    }
}

TEST(ShmSession, SaysWhenRanksHaveDifferentWorkspaces) {
    const auto errors = errors_of_two([](int rank, const auto& meeting) {
        SessionOptions options = host_options();
        options.workspace_bytes = (1u + rank) << 20;
        options.rendezvous_timeout_ns = 200'000'000;
        HostRank<Two> host(rank, meeting, options);
    });
    EXPECT_NE(errors[0].find("rank 1 has a workspace of 2097152 bytes, rank 0 of 1048576"), std::string::npos)
        << errors[0];
}

TEST(ShmSession, SaysWhenRanksAttachDifferentArtifacts) {
    const auto errors = errors_of_two([](int rank, const auto& meeting) {
        auto session = Session::create_on_host(host_cluster(1, 2), rank, meeting, no_code, host_options());
        Artifact artifact = ag_gemm_artifact<Two>();
        artifact.manifest.semantics = rank == 0 ? "one" : "two";
        session->attach(artifact);
    });
    EXPECT_NE(errors[0].find("rank 1 attaches another artifact than this rank"), std::string::npos) << errors[0];
    EXPECT_NE(errors[1].find("rank 0 attaches another artifact than this rank"), std::string::npos) << errors[1];
}

TEST(ShmSession, TellsTheOthersWhyARankCannotLoad) {
    const auto errors = errors_of_two([](int rank, const auto& meeting) {
        auto session = Session::create_on_host(
            host_cluster(1, 2), rank, meeting,
            [rank](const Artifact& artifact) {
                if (rank == 1) throw CompileError("no linker");
                return no_code(artifact);
            },
            host_options());
        session->attach(ag_gemm_artifact<Two>());
    });
    EXPECT_EQ(errors[0], "DeviceError: attaching ag_gemm_by_hand failed: rank 1: no linker");
    EXPECT_EQ(errors[1], "CompileError: no linker");
}

TEST(ShmSession, RefusesCodeOfAnotherMachineAndTooFewCtas) {
    const auto errors = errors_of_two([](int rank, const auto& meeting) {
        auto session = Session::create_on_host(host_cluster(1, 2), rank, meeting, no_code, host_options());
        Artifact artifact = ag_gemm_artifact<Two>();
        artifact.manifest.min_ctas = 4;
        EXPECT_THROW(session->attach(artifact), ArgumentError);
        artifact.manifest.arch = "sm_90a";
        session->attach(artifact);
    });
    EXPECT_EQ(errors[0], "ArgumentError: artifact ag_gemm_by_hand is for sm_90a, this session runs host code");
}

TEST(ShmSession, RefusesLaunchesOfWhatIsNotAttachedAndStreams) {
    HostRank<SmallShape<1, 1>> host(0, make_process_rendezvous());
    EXPECT_THROW(host.session->launch(1, 8, {}, nullptr), ArgumentError);
    int stream = 0;
    EXPECT_THROW(host.session->launch(0, 8, {}, &stream), ArgumentError);
    EXPECT_LE(host.launch(64, 1), 1.0);  // refusals kill nothing
}

}  // namespace
}  // namespace plait::testing
