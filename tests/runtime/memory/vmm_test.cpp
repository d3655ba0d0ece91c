#include "runtime/memory/vmm.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/session/rendezvous.h"
#include "tests/runtime/device/fake_driver.h"

namespace plait {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kMiB = 1u << 20;

AllGather gather_over(std::shared_ptr<Rendezvous> rendezvous, int rank, int world) {
    return [=](const std::string& name, const std::string& value) {
        rendezvous->set(name + "/" + std::to_string(rank), value);
        std::vector<std::string> values;
        for (int other = 0; other < world; ++other)
            values.push_back(rendezvous->get(name + "/" + std::to_string(other), 10 * kSecond));
        return values;
    };
}

std::vector<int> all_ranks(int world) {
    std::vector<int> ranks;
    for (int rank = 0; rank < world; ++rank) ranks.push_back(rank);
    return ranks;
}

std::unique_ptr<SymmetricWorkspace> make_workspace(const FakeDriver& fake, std::shared_ptr<Rendezvous> rendezvous,
                                                   int rank, int world, std::uint64_t reserve = 16 * kMiB) {
    WorkspaceOptions options;
    options.rank = rank;
    options.mapped_ranks = all_ranks(world);
    options.device = rank % 2;
    options.reserve_bytes = reserve;
    options.timeout_ns = 5 * kSecond;
    return std::make_unique<SymmetricWorkspace>(fake.table(), options, gather_over(std::move(rendezvous), rank, world));
}

// Runs `body(rank)` on a thread per rank; the errors' texts, empty where none.
template <typename Body>
std::vector<std::string> on_ranks(int world, Body body) {
    std::vector<std::string> errors(world);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                body(rank);
            } catch (const std::exception& error) {
                errors[rank] = error.what();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
}

char* bytes_at(cu::DevicePointer pointer) { return reinterpret_cast<char*>(pointer); }

TEST(SymmetricWorkspace, RanksOfOneProcessSeeEachOthersMemory) {
    FakeDriver fake;
    {
        auto rendezvous = make_process_rendezvous();
        std::vector<std::unique_ptr<SymmetricWorkspace>> spaces(3);
        const auto errors = on_ranks(3, [&](int rank) {
            spaces[rank] = make_workspace(fake, rendezvous, rank, 3);
            spaces[rank]->grow(1000);
            spaces[rank]->grow(3 * kMiB);  // a second piece behind the first
        });
        for (const auto& error : errors) EXPECT_EQ(error, "");
        for (int rank = 0; rank < 3; ++rank) {
            EXPECT_EQ(spaces[rank]->committed(), 4 * kMiB);
            for (int peer = 0; peer < 3; ++peer) {
                const std::uint64_t offset = 2 * kMiB * (rank % 2) + 64 * rank;
                std::strcpy(bytes_at(spaces[rank]->base(peer)) + offset, std::to_string(10 * rank + peer).c_str());
                EXPECT_EQ(std::string(bytes_at(spaces[peer]->base(peer)) + offset), std::to_string(10 * rank + peer));
            }
        }
        EXPECT_EQ(fake.calls("memory_export"), 0);  // by handle
    }
    EXPECT_TRUE(fake.live().empty());
}

TEST(SymmetricWorkspace, ProcessesExchangeDescriptors) {
    char path[] = "/tmp/plait-vmm-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    const auto body = [&](int rank) {
        FakeDriver fake;
        {
            auto space = make_workspace(fake, make_directory_rendezvous(path), rank, 2);
            auto gather = gather_over(make_directory_rendezvous(path), rank, 2);
            space->grow(2 * kMiB);
            bytes_at(space->base(1 - rank))[100 + rank] = static_cast<char>('a' + rank);
            gather("written", "");
            if (bytes_at(space->base(rank))[100 + 1 - rank] != 'a' + 1 - rank) return 2;
            if (fake.calls("memory_export") != 1 || fake.calls("memory_import") != 1) return 3;
            gather("read", "");
        }
        return fake.live().empty() ? 0 : 4;
    };
    const pid_t child = fork();
    if (child == 0) {
        try {
            _exit(body(1));
        } catch (...) {
            _exit(9);
        }
    }
    EXPECT_EQ(body(0), 0);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    (void)!system(("rm -r " + std::string(path)).c_str());
}

TEST(SymmetricWorkspace, FailureOnOneRankIsToldToAllAndUndone) {
    FakeDriver fake, full;
    full.fail("memory_create", cu::kErrorOutOfMemory);
    auto rendezvous = make_process_rendezvous();
    std::vector<std::unique_ptr<SymmetricWorkspace>> spaces(2);
    const auto errors = on_ranks(2, [&](int rank) {
        spaces[rank] = make_workspace(rank == 1 ? full : fake, rendezvous, rank, 2);
        spaces[rank]->grow(2 * kMiB);
    });
    for (const auto& error : errors) {
        EXPECT_NE(error.find("rank 1: allocating 2097152 bytes of workspace on device 1: CUDA_ERROR_OUT_OF_MEMORY"),
                  std::string::npos)
            << error;
    }
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(spaces[rank]->committed(), 0u);
    EXPECT_EQ(fake.live().count("mapping"), 0u);
    EXPECT_EQ(fake.live().count("memory handle"), 0u);
    spaces.clear();
    EXPECT_TRUE(fake.live().empty());
    EXPECT_TRUE(full.live().empty());
}

TEST(SymmetricWorkspace, FailureWhileMappingAPeerLeavesItAsBefore) {
    FakeDriver fake;
    auto rendezvous = make_process_rendezvous();
    std::vector<std::unique_ptr<SymmetricWorkspace>> spaces(2);
    fake.fail("memory_set_access", cu::kErrorNotSupported, 2);  // the third: a peer's
    const auto grow = [&](int rank) {
        if (!spaces[rank]) spaces[rank] = make_workspace(fake, rendezvous, rank, 2);
        spaces[rank]->grow(2 * kMiB);
    };
    for (const auto& error : on_ranks(2, grow))
        EXPECT_NE(error.find("mapping the peers' workspaces failed"), std::string::npos) << error;
    EXPECT_EQ(fake.live().count("mapping"), 0u);
    for (const auto& error : on_ranks(2, grow)) EXPECT_EQ(error, "");  // and can be tried again
    bytes_at(spaces[0]->base(1))[0] = 'x';
    EXPECT_EQ(bytes_at(spaces[1]->base(1))[0], 'x');
}

TEST(SymmetricWorkspace, RefusesToGrowBeyondItsAddressSpace) {
    FakeDriver fake;
    auto space = make_workspace(fake, make_process_rendezvous(), 0, 1, 4 * kMiB);
    try {
        space->grow(4 * kMiB + 1);
        FAIL();
    } catch (const ArgumentError& error) {
        EXPECT_NE(std::string(error.what()).find("needs 4194305 bytes, 4194304 were reserved"), std::string::npos)
            << error.what();
    }
}

TEST(SymmetricWorkspace, RefusesRanksThatReserveDifferently) {
    FakeDriver fake;
    auto rendezvous = make_process_rendezvous();
    const auto errors =
        on_ranks(2, [&](int rank) { make_workspace(fake, rendezvous, rank, 2, (rank + 1) * 4 * kMiB); });
    EXPECT_NE(errors[0].find("rank 1 reserves another workspace than rank 0"), std::string::npos) << errors[0];
    EXPECT_TRUE(fake.live().empty());
}

}  // namespace
}  // namespace plait
