// Sessions come and go, live side by side, and are made of some of the ranks.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/runtime/base/temporary_directory.h"
#include "tests/runtime/shm/host_rank.h"
#include "tests/runtime/shm/processes.h"

namespace plait::testing {
namespace {

constexpr int kFine = 0, kWrong = 1, kFilesLeft = 2, kThreadsLeft = 3, kMappingsLeft = 4, kMemoryLeft = 5;
using Two = SmallShape<1, 2>;
using TwoByOne = SmallShape<2, 1>;

std::size_t entries_of(const char* folder) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
    return count;
}
std::size_t lines_of(const char* file) {
    std::ifstream in(file);
    std::size_t lines = 0;
    for (std::string line; std::getline(in, line);) ++lines;
    return lines;
}
std::size_t resident_kilobytes() {
    std::ifstream in("/proc/self/status");
    for (std::string word; in >> word;) {
        if (word != "VmRSS:") continue;
        std::size_t kilobytes = 0;
        in >> kilobytes;
        return kilobytes;
    }
    return 0;
}

// With a network between the ranks: shared memory, sockets, a fabric and a thread each time.
TEST(ShmLifetime, AHundredSessionsLeaveNothingBehind) {
    const TemporaryDirectory meeting;
    Processes ranks(2, [&](int rank) {
        const auto live = [&](int round) {
            HostRank<TwoByOne> host(rank, make_directory_rendezvous(meeting / std::to_string(round)));
            return host.launch(40, 1) <= 1.0;
        };
        for (int round = 0; round < 5; ++round) {
            if (!live(round)) return kWrong;
        }
        const std::size_t files = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task"),
                          mappings = lines_of("/proc/self/maps"), memory = resident_kilobytes();
        for (int round = 5; round < 105; ++round) {
            if (!live(round)) return kWrong;
        }
        if (entries_of("/proc/self/fd") != files) return kFilesLeft;
        if (entries_of("/proc/self/task") != threads) return kThreadsLeft;
        if (lines_of("/proc/self/maps") > mappings + 5) return kMappingsLeft;  // the allocator's arenas come and go
        if (resident_kilobytes() > memory + 2048) return kMemoryLeft;
        return kFine;
    });
    EXPECT_EQ(ranks.wait(), (std::vector<int>{kFine, kFine}));
}

TEST(ShmLifetime, TwoSessionsOfTheSameRanksRunAtOnce) {
    const TemporaryDirectory meeting;
    Processes ranks(2, [&](int rank) {
        std::vector<int> wrong(2, 0);
        std::vector<std::jthread> threads;
        for (int which = 0; which < 2; ++which) {
            threads.emplace_back([&, which] {
                HostRank<Two> host(rank, make_directory_rendezvous(meeting / std::to_string(which)));
                for (std::uint64_t seed = 1; seed <= 10; ++seed)
                    wrong[which] += host.launch(100 + 50 * which, seed + 100 * which) > 1.0;
            });
        }
        threads.clear();
        return wrong[0] + wrong[1] == 0 ? kFine : kWrong;
    });
    EXPECT_EQ(ranks.wait(), (std::vector<int>{kFine, kFine}));
}

// Ranks 0, 2 and 1, 3 of four, beside a Session of all four.
TEST(ShmLifetime, GroupsOfSomeRanksWorkBesideOneOfAll) {
    const TemporaryDirectory meeting;
    Processes ranks(4, [&](int rank) {
        HostRank<SmallShape<1, 4>> all(rank, make_directory_rendezvous(meeting / "all"));
        HostRank<Two> some(rank / 2, make_directory_rendezvous(meeting / std::to_string(rank % 2)));
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
            if (some.launch(100, seed + 10 * (rank % 2)) > 1.0 || all.launch(150, seed) > 1.0) return kWrong;
        }
        return kFine;
    });
    EXPECT_EQ(ranks.wait(), std::vector<int>(4, kFine));
}

}  // namespace
}  // namespace plait::testing
