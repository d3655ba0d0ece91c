// A rank that is killed, stopped or never launches: the others raise StallError in time, and a new Session works.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/runtime/base/temporary_directory.h"
#include "tests/runtime/shm/host_rank.h"
#include "tests/runtime/shm/processes.h"

namespace plait::testing {
namespace {

using Clock = std::chrono::steady_clock;
using Four = SmallShape<1, 4>;
using TwoByTwo = SmallShape<2, 2>;
using Three = SmallShape<1, 3>;

constexpr std::chrono::milliseconds kDeadline(400);
constexpr std::chrono::milliseconds kSlack(2000);  // beyond the deadline: what is promised
constexpr int kFine = 0, kNoStall = 1, kLate = 2, kUntold = 3, kOutputsKept = 4, kNotDead = 5, kNewSessionWrong = 6;

SessionOptions short_deadlines() {
    SessionOptions options = host_options();
    options.entry_deadline_ns = options.wait_deadline_ns =
        static_cast<std::uint64_t>(std::chrono::nanoseconds(kDeadline).count());
    return options;
}

template <class S>
bool outputs_are_nan(HostRank<S>& host, int rank) {
    Buffer& c = host.buffers[static_cast<std::size_t>(rank)].c;
    for (std::int64_t i = 0; i < c.rows * c.cols; ++i) {
        if (!std::isnan(to_f32(c.data()[i]))) return false;
    }
    return true;
}

// Launches until one fails; what a survivor finds.
template <class S>
int survive(HostRank<S>& host, int rank) {
    for (std::uint64_t seed = 1;; ++seed) {
        const Clock::time_point start = Clock::now();
        try {
            host.launch(200, seed);
        } catch (const StallError& error) {
            if (Clock::now() - start > kDeadline + kSlack) return kLate;
            const std::string text = error.message();
            const bool wait = text.find("role ") != std::string::npos && text.find("sees ") != std::string::npos;
            const bool entry = text.find("has not entered within 0.4 s") != std::string::npos ||
                               text.find("did not see all ranks of other nodes enter") != std::string::npos;
            if (!wait && !entry) return kUntold;
            if (!outputs_are_nan(host, rank)) return kOutputsKept;
            try {
                host.session->check();
                return kNotDead;
            } catch (const StallError&) {
                return kFine;
            }
        }
        if (seed > 100'000) return kNoStall;
    }
}

// The ranks but `lost` make a new Session of three.
int start_again(int rank, int lost, const std::string& meeting) {
    HostRank<Three> host(rank > lost ? rank - 1 : rank, make_directory_rendezvous(meeting));
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        if (host.launch(100, seed) > 1.0) return kNewSessionWrong;
    }
    return kFine;
}

template <class S>
int run_survivor(int rank, int lost, const TemporaryDirectory& meeting) {
    {
        HostRank<S> host(rank, make_directory_rendezvous(meeting / "first"), short_deadlines());
        if (const int code = survive(host, rank); code != kFine) return code;
    }
    return start_again(rank, lost, meeting / "second");
}

template <class S>
void lose_rank_to(int signal_number, int lost) {
    const TemporaryDirectory meeting;
    Processes ranks(S::world, [&](int rank) {
        if (rank != lost) return run_survivor<S>(rank, lost, meeting);
        HostRank<S> host(rank, make_directory_rendezvous(meeting / "first"), short_deadlines());
        host.launch(200, 1);
        std::thread([signal_number] {
            std::this_thread::sleep_for(std::chrono::milliseconds(15));
            kill(getpid(), signal_number);  // somewhere inside a launch
        }).detach();
        for (std::uint64_t seed = 2;; ++seed) host.launch(200, seed);
    });
    const std::vector<int> codes = ranks.wait(std::chrono::seconds(30), lost);
    for (int rank = 0; rank < S::world; ++rank) {
        if (rank != lost) EXPECT_EQ(codes[rank], kFine) << "rank " << rank;
    }
}

TEST(ShmFaults, AKilledRankEndsTheOthersInTime) { lose_rank_to<Four>(SIGKILL, 2); }
TEST(ShmFaults, AKilledRankOfAnotherNodeEndsTheOthersInTime) { lose_rank_to<TwoByTwo>(SIGKILL, 3); }
TEST(ShmFaults, AStoppedRankEndsTheOthersInTime) { lose_rank_to<Four>(SIGSTOP, 0); }

TEST(ShmFaults, ARankThatNeverLaunchesEndsTheOthersInTime) {
    constexpr int kAbsent = 1;
    const TemporaryDirectory meeting;
    Processes ranks(Four::world, [&](int rank) {
        if (rank != kAbsent) return run_survivor<Four>(rank, kAbsent, meeting);
        HostRank<Four> host(rank, make_directory_rendezvous(meeting / "first"), short_deadlines());
        std::this_thread::sleep_for(std::chrono::seconds(20));
        return kFine;
    });
    const std::vector<int> codes = ranks.wait(std::chrono::seconds(30), kAbsent);
    for (int rank = 0; rank < Four::world; ++rank) {
        if (rank != kAbsent) EXPECT_EQ(codes[rank], kFine) << "rank " << rank;
    }
}

TEST(ShmFaults, AnAbortFromAnotherThreadEndsALaunchAndIsToldToTheOthers) {
    const TemporaryDirectory meeting;
    Processes ranks(2, [&](int rank) {
        HostRank<SmallShape<1, 2>> host(rank, make_directory_rendezvous(meeting.path()));
        const Clock::time_point start = Clock::now();
        std::jthread aborter;
        if (rank == 0) {
            aborter = std::jthread([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                host.session->abort();
            });
        }
        try {
            if (rank == 0) host.launch(200, 1);
            while (Clock::now() - start < kSlack) host.session->check();  // rank 1 never launches
        } catch (const StallError& error) {
            return error.message().find("rank 0: abort() was called") != std::string::npos ||
                           error.message().find("rank 0, launch 1") != std::string::npos
                       ? kFine
                       : kUntold;
        }
        return kNoStall;
    });
    EXPECT_EQ(ranks.wait(), (std::vector<int>{kFine, kFine}));
}

TEST(ShmFaults, RanksThatLaunchDifferentThingsAreToldBoth) {
    const TemporaryDirectory meeting;
    Processes ranks(2, [&](int rank) {
        HostRank<SmallShape<1, 2>> host(rank, make_directory_rendezvous(meeting.path()), short_deadlines());
        host.launch(200, 1);
        try {
            host.launch(rank == 0 ? 180 : 100, 2);
        } catch (const StallError& error) {
            const std::string text = error.message();
            const bool told = text.find("M = 180") != std::string::npos && text.find("M = 100") != std::string::npos;
            return told && outputs_are_nan(host, rank) ? kFine : kUntold;
        }
        return kNoStall;
    });
    EXPECT_EQ(ranks.wait(), (std::vector<int>{kFine, kFine}));
}

// A kernel that is wrong in itself: no wait on others can end it, and it must not hang.
TEST(ShmFaults, AgentsThatWaitForEachOtherAreReported) {
    const TemporaryDirectory meeting;
    Processes ranks(1, [&](int rank) {
        HostRank<SmallShape<1, 1>, Fault::NoArrive> host(rank, make_directory_rendezvous(meeting.path()),
                                                         short_deadlines());
        try {
            host.launch(200, 1);
        } catch (const StallError& error) {
            return error.message().find("agent loader of CTA") != std::string::npos ? kFine : kUntold;
        }
        return kNoStall;
    });
    EXPECT_EQ(ranks.wait(), (std::vector<int>{kFine}));
}

}  // namespace
}  // namespace plait::testing
