// Each way to break the order of the hand-written ag_gemm is found, and by the rule that it breaks.
#include <gtest/gtest.h>

#include "runtime/sim/fault.h"
#include "tests/runtime/sim/ag_gemm_case.h"

namespace plait::testing {
namespace {

using Shape = SmallShape<2, 2>;

struct Finding {
    std::string fault, message;  // SimulationFault's word, or the error's kind
};

// M below the world leaves ranks without rows: then no data orders one launch after another, only the protocol does.
template <Fault F>
std::vector<Finding> find(std::uint64_t seeds = 2) {
    std::vector<Finding> findings;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        for (NetworkContract network : {NetworkContract::Ordered, NetworkContract::Unordered}) {
            SimOptions options;
            options.seed = seed;
            options.network = network;
            try {
                run_case<Shape, F>(options, {200, 3, 200, 1, 200});
                findings.push_back({"none", ""});
            } catch (const SimulationFault& fault) {
                findings.push_back({fault.fault(), fault.what()});
            } catch (const Error& error) {
                findings.push_back({error.kind(), error.what()});
            }
        }
    }
    return findings;
}

template <Fault F>
void expect_fault(const std::string& fault, const std::string& part) {
    for (const Finding& finding : find<F>()) {
        EXPECT_EQ(finding.fault, fault) << finding.message;
        EXPECT_NE(finding.message.find(part), std::string::npos) << finding.message;
    }
}

TEST(PlantedFault, SignalBeforeBulkWait) {
    expect_fault<Fault::SignalBeforeBulkWait>("read_unordered", "after the write by a bulk store's write");
}
TEST(PlantedFault, SignalAfterReadWait) {
    expect_fault<Fault::SignalAfterReadWait>("read_unordered", "after the write by a bulk store's write");
}
TEST(PlantedFault, GpuScopeSignalToPeer) { expect_fault<Fault::GpuScopeSignal>("read_unordered", "workspace of rank"); }
TEST(PlantedFault, GpuScopePublishToHost) {
    expect_fault<Fault::GpuScopePublish>("read_unordered", "a proxy's load at fifo");
}
TEST(PlantedFault, NoFenceAsyncGlobal) {
    expect_fault<Fault::NoFenceGlobal>("read_unordered", "a proxy fence is missing");
}
TEST(PlantedFault, NoFenceAsyncShared) {
    expect_fault<Fault::NoFenceShared>("read_unordered", "a proxy fence is missing");
}
TEST(PlantedFault, NoAgentSyncAfterStaging) {
    expect_fault<Fault::NoStageSync>("read_unordered", "a bulk store's read at shared memory");
}
TEST(PlantedFault, NoAgentSyncBeforeRestaging) {
    expect_fault<Fault::NoReuseSync>("overwrite_unordered", "the read by a bulk store");
}
TEST(PlantedFault, NoBulkWaitReadBeforeRestaging) {
    expect_fault<Fault::NoReuseWait>("overwrite_unordered", "the read by a bulk store");
}
TEST(PlantedFault, NoMmaWaitBeforeRelease) {
    expect_fault<Fault::NoMmaWait>("overwrite_unordered", "the read by a matrix operation");
}
TEST(PlantedFault, NoMmaBegin) { expect_fault<Fault::NoMmaBegin>("accumulator", "mma_begin"); }
TEST(PlantedFault, NoFlagWait) { expect_fault<Fault::NoFlagWait>("read_unordered", "a bulk load's read at workspace"); }
TEST(PlantedFault, NoEnteredWait) {
    expect_fault<Fault::NoEnteredWait>("overwrite_unordered", "is not ordered after the read by a bulk load's read");
}
TEST(PlantedFault, NoBulkWaitBeforeExit) {
    expect_fault<Fault::NoFinalBulkWait>("exit_in_flight", "ends with bulk group");
}
TEST(PlantedFault, NoBarrierInitFence) { expect_fault<Fault::NoInitFence>("barrier", "barrier_init"); }
TEST(PlantedFault, LostSignalIsADeadlock) {
    expect_fault<Fault::NoSignal>("StallError", "flag a_ready[+0 of 2]): expected 1, sees 0");
}
TEST(PlantedFault, LostArrivalIsADeadlock) { expect_fault<Fault::NoArrive>("StallError", "1 of 2 arrivals"); }

// What these two lose shows in several ways, whichever comes first.
TEST(PlantedFault, NoBarrierWaitByConsumer) {
    for (const Finding& finding : find<Fault::NoFullWait>())
        EXPECT_TRUE(finding.fault == "read_unordered" || finding.fault == "uninitialised") << finding.message;
    for (const Finding& finding : find<Fault::TileRingNotWaited>())
        EXPECT_TRUE(finding.fault == "read_unordered" || finding.fault == "uninitialised") << finding.message;
}
TEST(PlantedFault, NoBarrierWaitByProducer) {
    for (const Finding& finding : find<Fault::NoEmptyWait>()) {
        EXPECT_TRUE(finding.fault == "barrier" || finding.fault == "write_unordered" ||
                    finding.fault == "overwrite_unordered")
            << finding.message;
    }
}
// The kernel leaves while its proxy still works on its commands.
TEST(PlantedFault, NoFifoWaitBeforeExit) {
    int found = 0;
    for (const Finding& finding : find<Fault::NoFinalFifoWait>(6))
        found += finding.fault == "exit_in_flight" && finding.message.find("FIFO commands known to be complete") != std::string::npos;
    EXPECT_GE(found, 3);
}

TEST(PlantedFault, DeadClusterRefusesTheNextLaunch) {
    SimCluster cluster(small_cluster(2, 2, 3), {});
    Random random(1);
    std::vector<RankBuffers<Shape>> ranks;
    fill_case<Shape>(ranks, 200, random);
    const auto launch = [&] {
        cluster.launch(ag_gemm_artifact<Shape>(), {AgGemm<Shape, Fault::NoSignal>::entry, nullptr}, 200,
                       tensors_of<Shape>(ranks));
    };
    EXPECT_THROW(launch(), StallError);
    EXPECT_THROW(launch(), StallError);
    EXPECT_EQ(cluster.launches(), 0u);
}

}  // namespace
}  // namespace plait::testing
