#include "runtime/memory/shm_workspace.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "runtime/session/rank_group.h"

namespace plait {
namespace {

constexpr std::uint64_t kBytes = 1 << 20, kTimeout = 10'000'000'000ull;

std::vector<std::unique_ptr<ShmWorkspace>> make_workspaces(int world) {
    auto meeting = make_process_rendezvous();
    std::vector<std::unique_ptr<ShmWorkspace>> made(static_cast<std::size_t>(world));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world; ++rank) {
        threads.emplace_back([&, rank] {
            RankGroup group(meeting, rank, world, kTimeout);
            made[rank] = std::make_unique<ShmWorkspace>(
                ShmWorkspaceOptions{rank, kBytes, kTimeout},
                [&](const std::string& name, const std::string& value) { return group.all_gather(name, value); });
        });
    }
    return made;
}

TEST(ShmWorkspace, EveryRankReachesEveryOthersMemory) {
    const auto workspaces = make_workspaces(3);
    for (int writer = 0; writer < 3; ++writer) {
        for (int owner = 0; owner < 3; ++owner) workspaces[writer]->base(owner)[100 + writer] = 10 * writer + owner;
    }
    for (int owner = 0; owner < 3; ++owner) {
        for (int writer = 0; writer < 3; ++writer)
            EXPECT_EQ(workspaces[owner]->base(owner)[100 + writer], 10 * writer + owner);
    }
}

TEST(ShmWorkspace, CommittedMemoryIsZeroAndKeepsWhatPeersWroteBefore) {
    const auto workspaces = make_workspaces(2);
    workspaces[1]->base(0)[5000] = 7;
    workspaces[0]->commit(8192);
    EXPECT_EQ(workspaces[0]->base(0)[5000], 7);
    EXPECT_EQ(workspaces[0]->base(0)[5001], 0);
    EXPECT_THROW(workspaces[0]->commit(kBytes + 1), ArgumentError);
}

TEST(ShmWorkspace, APeerMayWriteToARankThatIsGone) {
    auto workspaces = make_workspaces(2);
    workspaces[0].reset();
    workspaces[1]->base(0)[kBytes - 1] = 1;
    EXPECT_EQ(workspaces[1]->base(0)[kBytes - 1], 1);
}

}  // namespace
}  // namespace plait
