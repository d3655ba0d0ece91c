// Two nodes on a fake driver: what a kernel asks of its FIFO arrives in the other rank's workspace, and is announced.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "runtime/base/error.h"
#include "tests/runtime/session/cuda_session_fixture.h"

namespace plait {
namespace {

u64 load(const u64* word) { return std::atomic_ref<u64>(*const_cast<u64*>(word)).load(std::memory_order_acquire); }

bool wait_until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}

constexpr u64 kPayload = 8192, kBytes = 4096, kFlag = 256;

// A kernel of the host: sends its payload to the other rank, then waits for the other's, as relay and agents do.
void exchange(const FakeLaunch& call, u64 epoch) {
    const Launch launch = launch_in(call);
    u8* area = launch.workspace[0] + launch.artifact_offset;
    std::memset(area + kPayload + launch.rank * kBytes, static_cast<int>(16 * epoch + launch.rank + 1), kBytes);
    TransferCommand& command = launch.fifo[(epoch - 1) % launch.fifo_slots];
    const u64 source = launch.artifact_offset + kPayload + launch.rank * kBytes;
    command.opcode = static_cast<u32>(TransferOpcode::PutSignal);
    command.destination_rank = static_cast<u32>(1 - launch.rank);
    command.source_offset = command.destination_offset = source;
    command.bytes = kBytes;
    command.signal_offset = launch.artifact_offset + kFlag + 8 * launch.rank;
    command.signal_value = epoch;
    std::atomic_ref<u64>(command.sequence).store(epoch, std::memory_order_release);

    const u64* flag = reinterpret_cast<const u64*>(area + kFlag + 8 * (1 - launch.rank));
    u64 taken = load(&launch.host->arrivals_taken);
    EXPECT_TRUE(wait_until([&] {
        while (taken < load(&launch.host->arrivals_posted)) {  // the relay's part
            const Arrival arrival = launch.arrivals[taken % launch.arrival_slots];
            std::atomic_ref<u64>(*reinterpret_cast<u64*>(launch.workspace[0] + arrival.signal_offset))
                .store(arrival.signal_value);
            std::atomic_ref<u64>(launch.host->arrivals_taken).store(++taken, std::memory_order_release);
        }
        return load(flag) >= epoch;
    })) << "rank "
        << launch.rank << " waits for epoch " << epoch;
    const u8* received = area + kPayload + (1 - launch.rank) * kBytes;
    for (u64 i = 0; i < kBytes; ++i) ASSERT_EQ(received[i], 16 * epoch + (1 - launch.rank) + 1) << "byte " << i;
    EXPECT_TRUE(wait_until([&] { return load(&launch.host->fifo_completed) >= epoch; }));
}

void run_exchanges(NetworkContract contract) {
    const Artifact artifact = fake_artifact(2, 1);
    FakeDriverOptions device;
    device.parameter_bytes = static_cast<std::size_t>(artifact.manifest.args_bytes);
    FakeDriver fake(device);
    FakeCluster cluster(2, 1);
    cluster.options.network = contract;
    cluster.options.fifo_slots = 4;
    cluster.create(fake);
    cluster.attach(artifact);
    ASSERT_EQ(cluster.first_error(), "");
    FakeTensors tensors[2];
    for (u64 epoch = 1; epoch <= 10; ++epoch) {
        fake.on_launch = [epoch](const FakeLaunch& call) { exchange(call, epoch); };
        cluster.on_ranks([&](int rank) {
            cluster.sessions[rank]->launch(0, 4, tensors[rank].views(2, 4), nullptr);
            cluster.sessions[rank]->check();
        });
        ASSERT_EQ(cluster.first_error(), "") << "epoch " << epoch;
    }
}

TEST(CudaNetwork, OrderedPutsArriveBeforeTheirFlags) { run_exchanges(NetworkContract::Ordered); }
TEST(CudaNetwork, UnorderedPutsAreAnnouncedByTheReceivingProxy) { run_exchanges(NetworkContract::Unordered); }

TEST(CudaNetwork, FailureOfTheProxyAbortsTheKernelAndIsTold) {
    const Artifact artifact = fake_artifact(2, 1);
    FakeDriverOptions device;
    device.parameter_bytes = static_cast<std::size_t>(artifact.manifest.args_bytes);
    FakeDriver fake(device);
    FakeCluster cluster(2, 1);
    cluster.create(fake);
    cluster.attach(artifact);
    ASSERT_EQ(cluster.first_error(), "");
    fake.on_launch = [](const FakeLaunch& call) {
        const Launch launch = launch_in(call);
        TransferCommand& command = launch.fifo[0];
        command.opcode = static_cast<u32>(TransferOpcode::PutSignal);
        command.destination_rank = 7;  // there is none
        std::atomic_ref<u64>(command.sequence).store(1, std::memory_order_release);
        EXPECT_TRUE(wait_until([&] { return load(&launch.host->abort) != 0; }));
    };
    FakeTensors tensors;
    cluster.sessions[0]->launch(0, 4, tensors.views(2, 4), nullptr);
    EXPECT_THROW(cluster.sessions[0]->check(), Error);
    EXPECT_THROW(cluster.sessions[0]->launch(0, 4, tensors.views(2, 4), nullptr), Error);
}

}  // namespace
}  // namespace plait
