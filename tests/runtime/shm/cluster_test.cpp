// Clusters on the second host engine: the CTAs of a cluster belong to one thread, whatever their number.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/shm/engine.h"
#include "tests/runtime/sim/cluster_kernel.h"

namespace plait::testing {
namespace {

constexpr std::uint32_t kCtas = 6;

std::vector<u64> run(HostKernel kernel, int threads) {
    std::vector<u16> matrix(64 * 64 * 5);
    for (std::size_t row = 0; row < matrix.size() / 64; ++row) matrix[row * 64] = static_cast<u16>(row + 1);
    std::vector<u64> words(2 * kCtas);
    DeviceState state{};
    ClusterArgs args{};
    args.launch.state = &state;
    args.seen = words.data(), args.message = words.data() + kCtas;
    const HostTensorMap map{reinterpret_cast<u8*>(matrix.data()),
                            {64, matrix.size() / 64, 1},
                            {128, 128 * matrix.size() / 64},
                            {64, 32, 1},
                            2};
    std::memcpy(&args.map[0], &map, sizeof(map));
    ShmLaunch launch;
    launch.kernel = kernel;
    launch.args = &args;
    launch.launch = &args.launch;
    launch.agents = {"loader", "consumer"};
    launch.shared_bytes = sizeof(ClusterShared);
    launch.ctas = kCtas, launch.cluster = 2;
    ShmEngine(threads).run(launch);
    words.resize(kCtas);
    return words;
}

TEST(ShmClusters, EveryCtaReceivesTheHalvesOfBoth) {
    u64 sum = 0;
    for (u64 k = 0; k < 5; ++k) sum += 64 * k + 1 + 64 * k + 33;
    for (int threads : {1, 2, 3, 8})
        EXPECT_EQ(run(ClusterKernel<ClusterFault::None>::entry, threads), std::vector<u64>(kCtas, sum));
}

TEST(ShmClusters, AMissingArriveAtThePeerIsReported) {
    try {
        run(ClusterKernel<ClusterFault::NoPeerArrive>::entry, 2);
        FAIL() << "ended";
    } catch (const StallError& error) {
        EXPECT_NE(error.message().find("agents of a cluster wait for each other"), std::string::npos)
            << error.message();
        EXPECT_NE(error.message().find("1 of 2 arrivals and 0 bytes to come"), std::string::npos) << error.message();
    }
}

}  // namespace
}  // namespace plait::testing
