#include "runtime/proxy/proxy.h"

#include <gtest/gtest.h>

#include "tests/runtime/proxy/scripted_session.h"

namespace plait {
namespace {

using testing::ProxyBench;

struct ProxyTest : ::testing::Test {
    ProxyBench bench;
    TransferProxy proxy{bench.rings(), bench.session, *bench.memory};
};

TEST_F(ProxyTest, TakesCommandsInRingOrderAndOnlyPublishedOnes) {
    bench.publish(1);  // position 1 before position 0
    EXPECT_FALSE(proxy.step());
    EXPECT_EQ(proxy.taken(), 0u);
    bench.publish(0);
    EXPECT_TRUE(proxy.step());
    ASSERT_EQ(bench.session.posted.size(), 2u);
    EXPECT_EQ(bench.session.posted[0].id, 0u);
    EXPECT_EQ(bench.session.posted[1].id, 1u);
    EXPECT_EQ(bench.session.posted[1].bytes, 16u);
    EXPECT_FALSE(proxy.idle());
}

TEST_F(ProxyTest, PublishesThePrefixOfCompletionsThatComeInAnyOrder) {
    for (u64 position = 0; position < 4; ++position) bench.publish(position);
    bench.session.complete_next = {};
    proxy.step();
    bench.session.complete_next = {3, 1};
    proxy.step();
    EXPECT_EQ(bench.lines.fifo_completed, 0u);
    bench.session.complete_next = {0};
    proxy.step();
    EXPECT_EQ(bench.lines.fifo_completed, 2u);
    bench.session.complete_next = {2};
    proxy.step();
    EXPECT_EQ(bench.lines.fifo_completed, 4u);
    EXPECT_TRUE(proxy.idle());
}

TEST_F(ProxyTest, GoesRoundTheRingManyTimes) {
    for (u64 position = 0; position < 100; ++position) {
        bench.publish(position);
        proxy.step();
        bench.session.complete_next = {position};
        proxy.step();
        ASSERT_EQ(bench.lines.fifo_completed, position + 1);
    }
}

TEST_F(ProxyTest, RetriesARefusedCommandOnceAndInOrder) {
    bench.session.accept_up_to = 1;
    for (u64 position = 0; position < 3; ++position) bench.publish(position);
    for (int round = 0; round < 5; ++round) proxy.step();
    EXPECT_EQ(bench.session.posted.size(), 1u);
    EXPECT_EQ(proxy.taken(), 3u);
    bench.session.accept_up_to = 10;
    proxy.step();
    ASSERT_EQ(bench.session.posted.size(), 3u);
    EXPECT_EQ(bench.session.posted[1].id, 1u);
    EXPECT_EQ(bench.session.posted[2].id, 2u);
}

TEST_F(ProxyTest, HoldsArrivalsBackWhileTheRingIsFull) {
    for (u64 value = 1; value <= 6; ++value) bench.session.arrive_next.push_back({8 * value, value});
    EXPECT_TRUE(proxy.step());
    EXPECT_EQ(bench.lines.arrivals_posted, 4u);  // four entries
    EXPECT_FALSE(proxy.idle());
    proxy.step();
    EXPECT_EQ(bench.lines.arrivals_posted, 4u);
    EXPECT_EQ(bench.arrivals[0].signal_value, 1u);  // not overwritten
    bench.lines.arrivals_taken = 1;
    proxy.step();
    EXPECT_EQ(bench.lines.arrivals_posted, 5u);
    EXPECT_EQ(bench.arrivals[0].signal_value, 5u);
    bench.lines.arrivals_taken = 5;
    proxy.step();
    EXPECT_EQ(bench.lines.arrivals_posted, 6u);
    EXPECT_TRUE(proxy.idle());
}

TEST_F(ProxyTest, RefusesARingThatWasOverwritten) {
    bench.publish(8);  // one lap early, into slot 0
    try {
        proxy.step();
        FAIL() << "no error";
    } catch (const TransportError& error) {
        EXPECT_EQ(error.message(), "fifo position 0 holds sequence 9, expected 1 or 0: scripted, rank 0, nic none");
    }
}

TEST_F(ProxyTest, RefusesAnUnknownOpcode) {
    bench.publish(0);
    bench.fifo[0].opcode = 77;
    EXPECT_THROW(proxy.step(), TransportError);
}

TEST_F(ProxyTest, RefusesACompletionThatIsNotOutstanding) {
    bench.session.complete_next = {0};
    EXPECT_THROW(proxy.step(), InternalError);
}

TEST_F(ProxyTest, RefusesASecondCompletion) {
    bench.publish(0);
    bench.publish(1);
    proxy.step();
    bench.session.complete_next = {1, 1};
    EXPECT_THROW(proxy.step(), InternalError);
}

TEST(Proxy, BatchBoundsWhatOneRoundTakes) {
    ProxyBench bench;
    TransferProxy proxy(bench.rings(), bench.session, *bench.memory, 2);
    for (u64 position = 0; position < 5; ++position) bench.publish(position);
    proxy.step();
    EXPECT_EQ(proxy.taken(), 2u);
}

TEST(Proxy, RejectsRingsThatAreNoPowerOfTwo) {
    ProxyBench bench(6, 4);
    EXPECT_THROW(TransferProxy(bench.rings(), bench.session, *bench.memory), ArgumentError);
    ProxyBench other(8, 3);
    EXPECT_THROW(TransferProxy(other.rings(), other.session, *other.memory), ArgumentError);
    EXPECT_THROW(TransferProxy(ProxyRings{}, bench.session, *bench.memory), ArgumentError);
}

// A kernel that gives up leaves positions that never come: the notice does not wait for them.
TEST(TransferProxy, TellsOtherNodesOfAnAbortOnceAndPastAGapInTheRing) {
    ProxyBench bench;
    TransferProxy proxy(bench.rings(), bench.session, *bench.memory);
    proxy.set_abort_notice(abort_notice(1, 6, 2));
    bench.publish(1);  // position 0 never comes
    proxy.step();
    EXPECT_TRUE(bench.session.posted.empty());
    bench.session.accept_up_to = 1;
    bench.memory->store_release(&bench.lines.told, 1);
    EXPECT_TRUE(proxy.step());
    bench.session.accept_up_to = 8;
    EXPECT_TRUE(proxy.step());
    proxy.step();
    ASSERT_EQ(bench.session.posted.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
        const PutRequest& put = bench.session.posted[i];
        EXPECT_EQ(put.destination_rank, 3 + 2 * i);  // its rail peers
        EXPECT_EQ(put.source_offset, told_offset(6, 1));
        EXPECT_EQ(put.destination_offset, told_offset(6, 1));
        EXPECT_EQ(put.bytes, sizeof(StallRecord));
        EXPECT_EQ(put.signal_offset, abort_word_offset(6));
        EXPECT_EQ(put.signal_value, 2u);
        bench.session.complete_next.push_back(put.id);
    }
    proxy.step();  // its completion is none of the ring's
    EXPECT_EQ(proxy.completed_prefix(), 0u);
}

}  // namespace
}  // namespace plait
