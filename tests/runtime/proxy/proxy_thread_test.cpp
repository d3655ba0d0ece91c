#include "runtime/proxy/proxy_thread.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/runtime/proxy/scripted_session.h"

namespace plait {
namespace {

using testing::ProxyBench;
using namespace std::chrono_literals;

std::unique_ptr<TransferProxy> proxy_of(ProxyBench& bench) {
    return std::make_unique<TransferProxy>(bench.rings(), bench.session, *bench.memory);
}

template <class Condition>
bool eventually(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until) return false;
        std::this_thread::sleep_for(100us);
    }
    return true;
}

// Completes at once whatever was posted.
void complete_at_once(ProxyBench& bench) {
    bench.session.on_step = [&bench, done = std::size_t{0}]() mutable {
        for (; done < bench.session.posted.size(); ++done)
            bench.session.complete_next.push_back(bench.session.posted[done].id);
    };
}

TEST(ProxyThread, MovesCommandsUntilStopped) {
    ProxyBench bench;
    complete_at_once(bench);
    ProxyThread thread(proxy_of(bench), {});
    for (u64 position = 0; position < 1000; ++position) {
        ASSERT_TRUE(eventually([&] { return position - bench.memory->load_acquire(&bench.lines.fifo_completed) < 8; }));
        bench.publish(position);
    }
    EXPECT_TRUE(thread.stop());  // drains what is outstanding
    EXPECT_EQ(bench.lines.fifo_completed, 1000u);
    EXPECT_TRUE(thread.stop());
}

TEST(ProxyThread, ForwardsWhatTheSessionThrowsAndTellsTheOwner) {
    ProxyBench bench;
    bench.session.on_step = [] { throw TransportError("put 3 of rank 0 to rank 1 failed"); };
    std::atomic<int> told{0};
    ProxyThreadOptions options;
    options.on_failure = [&](const std::exception_ptr&) { ++told; };
    ProxyThread thread(proxy_of(bench), options);
    ASSERT_TRUE(eventually([&] { return thread.failed(); }));
    EXPECT_THROW(thread.check(), TransportError);
    EXPECT_FALSE(thread.stop());
    EXPECT_EQ(told, 1);
}

TEST(ProxyThread, FailureBeforeTheFirstStepIsForwardedToo) {
    ProxyBench bench;
    ProxyThreadOptions options;
    options.on_start = [] { throw DeviceError("no context"); };
    ProxyThread thread(proxy_of(bench), options);
    ASSERT_TRUE(eventually([&] { return thread.failed(); }));
    EXPECT_THROW(thread.check(), DeviceError);
}

TEST(ProxyThread, StopsInBoundedTimeWithTransfersThatNeverComplete) {
    ProxyBench bench;
    ProxyThreadOptions options;
    options.drain_ns = 50'000'000;
    ProxyThread thread(proxy_of(bench), options);
    bench.publish(0);
    std::this_thread::sleep_for(5ms);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(thread.stop());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

TEST(ProxyThread, SleepsWhenIdleAndSpinsWhileALaunchIsInFlight) {
    ProxyBench bench;
    ProxyThreadOptions options;
    options.spin_ns = 0;
    std::atomic<bool> under_way{false};
    options.launch_under_way = [&] { return under_way.load(); };
    ProxyThread thread(proxy_of(bench), options);
    ASSERT_TRUE(eventually([&] { return thread.sleeps() > 3; }));
    under_way = true;
    std::this_thread::sleep_for(1ms);
    const std::uint64_t sleeps = thread.sleeps(), rounds = thread.rounds();
    ASSERT_TRUE(eventually([&] { return thread.rounds() > rounds + 1000; }));
    EXPECT_EQ(thread.sleeps(), sleeps);
    under_way = false;
    ASSERT_TRUE(eventually([&] { return thread.sleeps() > sleeps + 3; }));
}

TEST(ProxyThread, WakingEndsAPauseAndStartsAnotherSpin) {
    ProxyBench bench;
    ProxyThreadOptions options;
    options.spin_ns = 3'600'000'000'000;
    options.idle_poll_ns = 3'600'000'000'000;
    ProxyThread thread(proxy_of(bench), options);
    std::this_thread::sleep_for(1ms);
    const std::uint64_t rounds = thread.rounds();
    thread.wake();
    ASSERT_TRUE(eventually([&] { return thread.rounds() > rounds + 1000; }));
    EXPECT_EQ(thread.sleeps(), 0u);
    options.spin_ns = 0;
    ProxyThread sleeper(proxy_of(bench), options);
    ASSERT_TRUE(eventually([&] { return sleeper.sleeps() == 1; }));
    sleeper.wake();
    ASSERT_TRUE(eventually([&] { return sleeper.sleeps() == 2; }));
}

TEST(ProxyThread, HundredCreateAndDestroyCycles) {
    for (int cycle = 0; cycle < 100; ++cycle) {
        ProxyBench bench;
        complete_at_once(bench);
        ProxyThread thread(proxy_of(bench), {});
        bench.publish(0);
    }
}

TEST(ProxyThread, NamesANumaNodeThatDoesNotExist) {
    ProxyBench bench;
    ProxyThreadOptions options;
    options.numa_node = 4095;
    ProxyThread thread(proxy_of(bench), options);
    ASSERT_TRUE(eventually([&] { return thread.failed(); }));
    try {
        thread.check();
        FAIL() << "no error";
    } catch (const TransportError& error) {
        EXPECT_NE(error.message().find("NUMA node 4095"), std::string::npos);
    }
}

}  // namespace
}  // namespace plait
