// How a payload is announced on a network that orders nothing (SRD): both ends of it, without the network.
//
// A put becomes payload writes and one descriptor write, all with immediate data. The receiver counts immediates: once
// the descriptor and as many payload messages as it names have arrived, the put is complete and its Arrival is
// published. A message's immediate says that this message's bytes are placed, nothing about any other message.
//
// The immediate, 32 bits:
//
//  bits   field        limit
//  31-22  sender       kMaxRanks ranks
//  21-11  slot         kMaxSignalSlots puts under way from one sender to one receiver
//  10-1   generation   lap of the slot ring, modulo 1024: tells a late or foreign immediate
//   0     descriptor   1: this message wrote the descriptor, 0: payload
//
// Puts of one sender are published in the order they were posted: two values of one flag must not overtake each other,
// and a receiver cannot know that two puts share a flag before both descriptors are there.
//
// A slot is reused once the receiver has published it (credit: number of puts published, written back by the receiver)
// and the sender's own writes of it have completed (their source may be sent again until then).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/net/proxy_session.h"

namespace plait {

inline constexpr std::uint32_t kMaxRanks = 1024;
inline constexpr std::uint32_t kMaxSignalSlots = 2048;
inline constexpr std::uint32_t kSignalGenerations = 1024;

struct Immediate {
    std::uint32_t sender = 0, slot = 0, generation = 0;
    bool descriptor = false;
};
std::uint32_t encode_immediate(const Immediate& immediate);
Immediate decode_immediate(std::uint32_t word);
// ArgumentError where a world or a slot count does not fit the bits.
void check_immediate_budget(std::uint32_t world, std::uint32_t slots);

// Written by the sender into the receiver's table, one entry per slot.
//  byte 0 signal_offset, 8 signal_value, 16 payload_messages, 24 sequence (position of the put, for checking)
struct SignalDescriptor {
    u64 signal_offset;
    u64 signal_value;
    u64 payload_messages;
    u64 sequence;
};
static_assert(sizeof(SignalDescriptor) == 32);

// One per sender, at the receiver. `table` is where that sender's descriptors land.
class SignalReceiver {
public:
    SignalReceiver(std::uint32_t sender, std::uint32_t slots, const SignalDescriptor* table);
    // TransportError: generation or sequence of another lap, more messages than announced.
    void on_immediate(const Immediate& immediate);
    // Appends the arrivals that became complete; returns how many.
    std::uint64_t publish(std::vector<Arrival>* arrivals);
    std::uint64_t published() const { return published_; }  // the credit to return

private:
    struct Slot {
        std::uint64_t payload_messages = 0;
        bool descriptor = false;
    };
    std::uint64_t sequence_of(std::uint32_t slot) const;

    std::uint32_t sender_, slots_;
    const SignalDescriptor* table_;
    std::vector<Slot> state_;
    std::uint64_t published_ = 0;
};

// One per receiver, at the sender.
class SignalSender {
public:
    SignalSender(std::uint32_t rank, std::uint32_t slots);
    // Whether the next put has a slot; `credit` is the last number of published puts that the receiver wrote back.
    bool can_begin(std::uint64_t credit) const;
    std::uint64_t begin();  // claims the next sequence number
    std::uint32_t slot_of(std::uint64_t sequence) const { return static_cast<std::uint32_t>(sequence % slots_); }
    std::uint32_t immediate_of(std::uint64_t sequence, bool descriptor) const;
    void sources_free(std::uint64_t sequence);  // all writes of that put have completed locally

private:
    std::uint32_t rank_, slots_;
    std::uint64_t next_ = 0;
    std::vector<bool> busy_;
};

}  // namespace plait
