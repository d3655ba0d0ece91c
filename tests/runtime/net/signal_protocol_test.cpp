#include "runtime/net/signal_protocol.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

TEST(Immediate, KeepsEveryFieldAtItsLimits) {
    for (std::uint32_t sender : {0u, 1u, kMaxRanks - 1})
        for (std::uint32_t slot : {0u, 5u, kMaxSignalSlots - 1})
            for (std::uint32_t generation : {0u, 9u, kSignalGenerations - 1})
                for (bool descriptor : {false, true}) {
                    const Immediate read = decode_immediate(encode_immediate({sender, slot, generation, descriptor}));
                    EXPECT_EQ(read.sender, sender);
                    EXPECT_EQ(read.slot, slot);
                    EXPECT_EQ(read.generation, generation);
                    EXPECT_EQ(read.descriptor, descriptor);
                }
}

TEST(Immediate, BudgetIsChecked) {
    EXPECT_NO_THROW(check_immediate_budget(kMaxRanks, kMaxSignalSlots));
    EXPECT_THROW(check_immediate_budget(kMaxRanks + 1, 1), ArgumentError);
    EXPECT_THROW(check_immediate_budget(1, kMaxSignalSlots + 1), ArgumentError);
    EXPECT_THROW(check_immediate_budget(1, 0), ArgumentError);
}

struct ReceiverTest : ::testing::Test {
    SignalDescriptor table[4] = {};
    SignalSender sender{7, 4};
    SignalReceiver receiver{7, 4, table};
    std::vector<Arrival> arrivals;

    std::uint64_t begin(std::uint64_t messages) {
        const std::uint64_t sequence = sender.begin();
        table[sender.slot_of(sequence)] = {8 * sequence, sequence + 100, messages, sequence};
        return sequence;
    }
    void arrive(std::uint64_t sequence, bool descriptor) {
        receiver.on_immediate(decode_immediate(sender.immediate_of(sequence, descriptor)));
    }
};

TEST_F(ReceiverTest, NeedsTheDescriptorAndEveryPayloadMessage) {
    const std::uint64_t put = begin(2);
    arrive(put, false);
    EXPECT_EQ(receiver.publish(&arrivals), 0u);
    arrive(put, true);  // the descriptor overtook a payload message
    EXPECT_EQ(receiver.publish(&arrivals), 0u);
    arrive(put, false);
    EXPECT_EQ(receiver.publish(&arrivals), 1u);
    EXPECT_EQ(arrivals[0].signal_value, 100u);
}

TEST_F(ReceiverTest, PublishesPutsOfOneSenderInOrder) {
    const std::uint64_t first = begin(1), second = begin(0);
    arrive(second, true);
    EXPECT_EQ(receiver.publish(&arrivals), 0u);
    arrive(first, false);
    arrive(first, true);
    EXPECT_EQ(receiver.publish(&arrivals), 2u);
    EXPECT_EQ(arrivals[0].signal_value, 100u);
    EXPECT_EQ(arrivals[1].signal_value, 101u);
}

TEST_F(ReceiverTest, SlotIsClaimedAgainOnlyAfterCreditAndLocalCompletion) {
    for (int put = 0; put < 4; ++put) {
        ASSERT_TRUE(sender.can_begin(0));
        begin(0);
    }
    EXPECT_FALSE(sender.can_begin(0));
    EXPECT_FALSE(sender.can_begin(1));  // published, sources still in use
    sender.sources_free(0);
    EXPECT_FALSE(sender.can_begin(0));  // sources free, not published
    EXPECT_TRUE(sender.can_begin(1));
}

TEST_F(ReceiverTest, RunsThroughAllGenerationsAndRefusesALateImmediate) {
    std::uint64_t put = 0;
    for (; put < 4ull * kSignalGenerations * 2 + 3; ++put) {
        ASSERT_TRUE(sender.can_begin(receiver.published()));
        ASSERT_EQ(begin(1), put);
        arrive(put, true);
        arrive(put, false);
        sender.sources_free(put);
        ASSERT_EQ(receiver.publish(&arrivals), 1u);
    }
    EXPECT_THROW(arrive(put - 1, false), TransportError);  // a second immediate of a published put
}

TEST_F(ReceiverTest, RefusesMoreMessagesThanAnnounced) {
    const std::uint64_t put = begin(1);
    arrive(put, false);
    arrive(put, false);
    arrive(put, true);
    EXPECT_THROW(receiver.publish(&arrivals), TransportError);
}

TEST_F(ReceiverTest, RefusesADescriptorOfAnotherPut) {
    const std::uint64_t put = begin(1);
    table[0].sequence = 4;
    EXPECT_THROW(arrive(put, true), TransportError);
    EXPECT_THROW(receiver.on_immediate({7, 9, 0, false}), TransportError);
}

}  // namespace
}  // namespace plait
