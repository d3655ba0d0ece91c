// Ranks as processes: values, many launches, two Sessions at once.
#include <gtest/gtest.h>

#include "runtime/session/rank_hello.h"
#include "tests/runtime/base/temporary_directory.h"
#include "tests/runtime/shm/host_rank.h"
#include "tests/runtime/shm/processes.h"

namespace plait::testing {
namespace {

constexpr int kRight = 0, kWrong = 1;

template <class S>
std::vector<int> run_ranks(const std::vector<std::int64_t>& ms, const SessionOptions& options) {
    const TemporaryDirectory meeting;
    Processes ranks(S::world, [&](int rank) {
        HostRank<S> host(rank, make_directory_rendezvous(meeting.path()), options);
        for (std::size_t i = 0; i < ms.size(); ++i) {
            if (host.launch(ms[i], i + 1) > 1.0) return kWrong;
        }
        return kRight;
    });
    return ranks.wait();
}

std::vector<int> all_right(int world) { return std::vector<int>(static_cast<std::size_t>(world), kRight); }

TEST(ShmProcesses, TwoRanksAreRight) {
    EXPECT_EQ((run_ranks<SmallShape<1, 2>>({200, 3, 256, 0, 1}, host_options())), all_right(2));
}
TEST(ShmProcesses, ThreeRanksAreRight) {
    EXPECT_EQ((run_ranks<SmallShape<1, 3>>({200, 2, 255}, host_options())), all_right(3));
}
TEST(ShmProcesses, FourRanksAreRightForFiftyLaunches) {
    std::vector<std::int64_t> ms;
    for (std::int64_t i = 0; i < 50; ++i) ms.push_back(1 + i * 41 % 160);
    EXPECT_EQ((run_ranks<SmallShape<1, 4>>(ms, host_options())), all_right(4));
}
TEST(ShmProcesses, TwoNodesOfTwoRanksAreRightOnBothNetworks) {
    for (NetworkContract network : {NetworkContract::Ordered, NetworkContract::Unordered}) {
        SessionOptions options = host_options();
        options.network = network;
        options.fifo_slots = options.arrival_slots = 4;
        EXPECT_EQ((run_ranks<SmallShape<2, 2>>({200, 3, 250, 1}, options)), all_right(4)) << contract_name(network);
    }
}
TEST(ShmProcesses, SeveralThreadsARankAreRight) {
    SessionOptions options = host_options();
    options.host_threads = 3;
    EXPECT_EQ((run_ranks<SmallShape<2, 2>>({200, 17, 250, 120}, options)), all_right(4));
}

}  // namespace
}  // namespace plait::testing
