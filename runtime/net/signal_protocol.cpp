#include "runtime/net/signal_protocol.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr std::uint32_t kGenerationShift = 1, kSlotShift = 11, kSenderShift = 22;
static_assert(kSlotShift - kGenerationShift == 10 && kSignalGenerations == 1u << 10);
static_assert(kSenderShift - kSlotShift == 11 && kMaxSignalSlots == 1u << 11);
static_assert(32 - kSenderShift == 10 && kMaxRanks == 1u << 10);

std::uint32_t generation_of(std::uint64_t sequence, std::uint32_t slots) {
    return static_cast<std::uint32_t>(sequence / slots % kSignalGenerations);
}

}  // namespace

std::uint32_t encode_immediate(const Immediate& immediate) {
    return immediate.sender << kSenderShift | immediate.slot << kSlotShift | immediate.generation << kGenerationShift |
           (immediate.descriptor ? 1u : 0u);
}

Immediate decode_immediate(std::uint32_t word) {
    return {word >> kSenderShift, word >> kSlotShift & (kMaxSignalSlots - 1),
            word >> kGenerationShift & (kSignalGenerations - 1), (word & 1) != 0};
}

void check_immediate_budget(std::uint32_t world, std::uint32_t slots) {
    if (world > kMaxRanks)
        throw ArgumentError(
            fmt::format("{} ranks do not fit the immediate data, which has room for {}", world, kMaxRanks));
    if (slots == 0 || slots > kMaxSignalSlots)
        throw ArgumentError(
            fmt::format("{} signal slots do not fit the immediate data, 1 to {} do", slots, kMaxSignalSlots));
}

SignalReceiver::SignalReceiver(std::uint32_t sender, std::uint32_t slots, const SignalDescriptor* table)
    : sender_(sender), slots_(slots), table_(table), state_(slots) {}

// The one put that may be under way in `slot`: the sender claims a slot again only after it was published.
std::uint64_t SignalReceiver::sequence_of(std::uint32_t slot) const {
    const std::uint64_t lap_begin = published_ - published_ % slots_;
    return slot >= published_ % slots_ ? lap_begin + slot : lap_begin + slots_ + slot;
}

void SignalReceiver::on_immediate(const Immediate& immediate) {
    if (immediate.slot >= slots_)
        throw TransportError(fmt::format("immediate of rank {} names slot {} of {}", sender_, immediate.slot, slots_));
    const std::uint64_t sequence = sequence_of(immediate.slot);
    if (immediate.generation != generation_of(sequence, slots_))
        throw TransportError(
            fmt::format("immediate of rank {} for slot {} has generation {}, expected {} (put {})", sender_,
                        immediate.slot, immediate.generation, generation_of(sequence, slots_), sequence),
            "a message of another session, or a slot that was reused before it was published");
    Slot& slot = state_[immediate.slot];
    if (!immediate.descriptor) {
        ++slot.payload_messages;
        return;
    }
    if (slot.descriptor || table_[immediate.slot].sequence != sequence)
        throw TransportError(fmt::format("descriptor of rank {} in slot {} is of put {}, expected one of put {}",
                                         sender_, immediate.slot, table_[immediate.slot].sequence, sequence));
    slot.descriptor = true;
}

std::uint64_t SignalReceiver::publish(std::vector<Arrival>* arrivals) {
    const std::uint64_t before = published_;
    for (;;) {
        Slot& slot = state_[published_ % slots_];
        if (!slot.descriptor) break;
        const SignalDescriptor& descriptor = table_[published_ % slots_];
        if (slot.payload_messages > descriptor.payload_messages)
            throw TransportError(fmt::format("put {} of rank {} announced {} payload messages, {} arrived", published_,
                                             sender_, descriptor.payload_messages, slot.payload_messages));
        if (slot.payload_messages < descriptor.payload_messages) break;
        arrivals->push_back({descriptor.signal_offset, descriptor.signal_value});
        slot = Slot{};
        ++published_;
    }
    return published_ - before;
}

SignalSender::SignalSender(std::uint32_t rank, std::uint32_t slots) : rank_(rank), slots_(slots), busy_(slots, false) {}

bool SignalSender::can_begin(std::uint64_t credit) const { return next_ - credit < slots_ && !busy_[next_ % slots_]; }

std::uint64_t SignalSender::begin() {
    busy_[next_ % slots_] = true;
    return next_++;
}

std::uint32_t SignalSender::immediate_of(std::uint64_t sequence, bool descriptor) const {
    return encode_immediate({rank_, slot_of(sequence), generation_of(sequence, slots_), descriptor});
}

void SignalSender::sources_free(std::uint64_t sequence) { busy_[sequence % slots_] = false; }

}  // namespace plait
