// Clusters of CTAs: multicast loads, remote arrives, cluster barriers, and what seeds find where one is missing.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/sim/engine.h"
#include "runtime/sim/rank_memory.h"
#include "tests/runtime/sim/cluster_kernel.h"

namespace plait::testing {
namespace {

constexpr int kCtas = 4, kSeeds = 30;

// Row r of the matrix begins with r + 1; seen by every CTA alike.
struct Case {
    std::vector<u16> matrix;
    std::vector<u64> words;  // seen, message
    ClusterArgs args{};
    Engine engine;
    SimRankMemory memory;

    explicit Case(std::uint64_t seed)
        : matrix(64 * 64 * 5), words(2 * kCtas), engine(1, 1, options(seed)), memory(4, 4) {
        for (std::size_t row = 0; row < matrix.size() / 64; ++row) matrix[row * 64] = static_cast<u16>(row + 1);
        memory.add_regions(engine.memory(), 0, 0, 1 << 16);
        engine.rank(0).workspace = memory.workspace();
        engine.rank(0).state = memory.state();
        engine.memory().add(reinterpret_cast<std::uint8_t*>(matrix.data()), matrix.size() * 2, MemoryKind::Input, 0,
                            "matrix");
        engine.memory().add(reinterpret_cast<std::uint8_t*>(words.data()), words.size() * 8, MemoryKind::Output, 0,
                            "words");
        HostTensorMap map{reinterpret_cast<u8*>(matrix.data()),
                          {64, matrix.size() / 64, 1},
                          {128, 128 * matrix.size() / 64},
                          {64, 32, 1},
                          2};
        std::memcpy(&args.map[0], &map, sizeof(map));
        args.seen = words.data(), args.message = words.data() + kCtas;
    }
    static SimOptions options(std::uint64_t seed) {
        SimOptions options;
        options.seed = seed;
        return options;
    }
    void run(HostKernel kernel, std::uint32_t resident = kCtas) {
        EngineLaunch launch;
        launch.kernel = kernel;
        launch.args = {&args};
        launch.agents = {"loader", "consumer"};
        launch.shared_bytes = sizeof(ClusterShared);
        launch.ctas = kCtas, launch.resident = resident, launch.cluster = 2;
        engine.run(launch);
    }
};

// The faults that the seeds find, each once: "kind: message".
template <ClusterFault F>
std::string fault_of() {
    for (int seed = 1; seed <= kSeeds; ++seed) {
        Case c(static_cast<std::uint64_t>(seed));
        try {
            c.run(ClusterKernel<F>::entry);
        } catch (const SimulationFault& fault) {
            return fault.fault() + ": " + fault.message();
        } catch (const Error& error) {
            return error.kind() + ": " + error.message();
        }
    }
    return "none";
}

void expect(const std::string& fault, const std::string& kind, const std::string& text) {
    EXPECT_TRUE(fault.starts_with(kind + ":")) << fault;
    EXPECT_NE(fault.find(text), std::string::npos) << fault;
}

TEST(Clusters, EveryCtaReceivesTheHalvesOfBoth) {
    u64 sum = 0;
    for (u64 k = 0; k < 5; ++k) sum += 64 * k + 1 + 64 * k + 33;
    for (std::uint32_t resident : {4u, 3u, 2u}) {  // an odd CTA stays away: clusters start whole
        for (int seed = 1; seed <= kSeeds; ++seed) {
            Case c(static_cast<std::uint64_t>(seed));
            c.run(ClusterKernel<ClusterFault::None>::entry, resident);
            for (int cta = 0; cta < kCtas; ++cta) ASSERT_EQ(c.words[cta], sum) << "CTA " << cta << " seed " << seed;
        }
    }
}

TEST(Clusters, ALoaderThatWaitsForItsOwnConsumersAloneOverwritesThePeers) {
    expect(fault_of<ClusterFault::OwnArrive>(), "write_unordered", "a bulk load's write");
}
TEST(Clusters, AMissingArriveAtThePeerIsAHangThatIsReported) {
    expect(fault_of<ClusterFault::NoPeerArrive>(), "StallError", "1 of 2 arrivals and 0 bytes to come");
}
TEST(Clusters, ASlotFreedUnderAMatrixOperationIsFound) {
    expect(fault_of<ClusterFault::ArriveTooEarly>(), "overwrite_unordered", "a matrix operation of agent consumer");
}
TEST(Clusters, AMaskThatMissesACtaIsAHangThatIsReported) {
    expect(fault_of<ClusterFault::OneCta>(), "StallError", "0 of 1 arrivals and 4096 bytes to come");
}
TEST(Clusters, BarriersOfThePeerNeedTheStartBarrier) {
    expect(fault_of<ClusterFault::NoStartBarrier>(), "barrier", "a multicast load");
}
TEST(Clusters, BarriersNeedTheirFence) { expect(fault_of<ClusterFault::NoInitFence>(), "barrier", "barrier_init"); }
TEST(Clusters, ACtaMayNotEndBeforeItsPeerHasArrived) {
    expect(fault_of<ClusterFault::NoLastWait>(), "exit_in_flight", "of its cluster, which has ended");
}
TEST(Clusters, ARemoteArriveHandsOnNoOrdinaryStores) {
    expect(fault_of<ClusterFault::HandsOnStores>(), "read_unordered", "words");
}

}  // namespace
}  // namespace plait::testing
