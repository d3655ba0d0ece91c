#include "runtime/proxy/proxy.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr std::uint64_t kNoticeId = 1ull << 63;  // above every FIFO position

bool power_of_two(std::uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

}  // namespace

AbortNotice abort_notice(int rank, int world, int ranks_per_node) {
    AbortNotice notice;
    notice.offset = told_offset(static_cast<u64>(world), static_cast<u64>(rank));
    notice.bytes = sizeof(StallRecord);
    notice.signal_offset = abort_word_offset(static_cast<u64>(world));
    notice.signal_value = 1 + static_cast<u64>(rank);
    for (int peer = rank % ranks_per_node; peer < world; peer += ranks_per_node) {
        if (peer != rank) notice.ranks.push_back(static_cast<std::uint32_t>(peer));
    }
    return notice;
}

TransferProxy::TransferProxy(ProxyRings rings, ProxySession& session, MemoryPort& memory, std::uint64_t max_batch)
    : rings_(rings), session_(session), memory_(memory), max_batch_(max_batch) {
    if (!rings.fifo || !rings.arrivals || !rings.lines)
        throw ArgumentError("a proxy needs a FIFO, an arrival ring and host lines");
    if (!power_of_two(rings.fifo_slots) || !power_of_two(rings.arrival_slots))
        throw ArgumentError(
            fmt::format("ring sizes must be powers of two, got a FIFO of {} and an arrival ring of {} entries",
                        rings.fifo_slots, rings.arrival_slots));
    if (max_batch == 0) throw ArgumentError("max_batch of a proxy is 0", "use at least 1");
    done_.resize(rings.fifo_slots, false);
}

bool TransferProxy::step() {
    bool moved = post_notice();
    moved |= take_commands();
    moved |= post_waiting();
    moved |= collect();
    moved |= publish_arrivals();
    return moved;
}

bool TransferProxy::idle() const { return taken_ == completed_prefix_ && arrivals_.empty(); }

// A slot's sequence word is 1 + the ring position it was last written for, so until the kernel has come round it still
// holds the position one lap earlier, or 0.
bool TransferProxy::take_commands() {
    const std::uint64_t first = taken_;
    while (taken_ - first < max_batch_ && taken_ - completed_prefix_ < rings_.fifo_slots) {
        TransferCommand& slot = rings_.fifo[taken_ & (rings_.fifo_slots - 1)];
        const u64 sequence = memory_.load_acquire(&slot.sequence);
        if (sequence != taken_ + 1) {
            const u64 previous = taken_ < rings_.fifo_slots ? 0 : taken_ + 1 - rings_.fifo_slots;
            if (sequence == previous) break;
            throw TransportError(fmt::format("fifo position {} holds sequence {}, expected {} or {}: {}", taken_,
                                             sequence, taken_ + 1, previous, session_.describe()),
                                 "the ring was overwritten: a kernel published without reserving a slot");
        }
        TransferCommand command{};
        memory_.read(&command.opcode, &slot.opcode, sizeof(command) - offsetof(TransferCommand, opcode));
        if (command.opcode != static_cast<u32>(TransferOpcode::PutSignal))
            throw TransportError(fmt::format("fifo position {} holds opcode {}, known is {}: {}", taken_,
                                             command.opcode, static_cast<u32>(TransferOpcode::PutSignal),
                                             session_.describe()));
        waiting_.push_back({taken_, command.destination_rank, command.source_offset, command.destination_offset,
                            command.bytes, command.signal_offset, command.signal_value});
        ++taken_;
    }
    return taken_ != first;
}

// Commands are posted in ring order; the first one refused holds back the rest, so that a session with one queue for
// all peers never sees them out of order.
bool TransferProxy::post_waiting() {
    std::uint64_t posted = 0;
    while (posted < max_batch_ && !waiting_.empty() && session_.try_post(waiting_.front())) {
        waiting_.pop_front();
        ++posted;
    }
    return posted != 0;
}

bool TransferProxy::post_notice() {
    if (notices_posted_ == notice_.ranks.size() || memory_.load_acquire(&rings_.lines->told) == 0) return false;
    const std::size_t before = notices_posted_;
    while (notices_posted_ < notice_.ranks.size() &&
           session_.try_post({kNoticeId + notices_posted_, notice_.ranks[notices_posted_], notice_.offset,
                              notice_.offset, notice_.bytes, notice_.signal_offset, notice_.signal_value}))
        ++notices_posted_;
    return notices_posted_ != before;
}

bool TransferProxy::collect() {
    completed_scratch_.clear();
    arrived_scratch_.clear();
    bool moved = session_.step(&completed_scratch_, &arrived_scratch_);
    for (std::uint64_t position : completed_scratch_) complete(position);
    const std::uint64_t before = completed_prefix_;
    while (completed_prefix_ < taken_ && done_[completed_prefix_ & (rings_.fifo_slots - 1)]) {
        done_[completed_prefix_ & (rings_.fifo_slots - 1)] = false;
        ++completed_prefix_;
    }
    if (completed_prefix_ != before) memory_.store_release(&rings_.lines->fifo_completed, completed_prefix_);
    arrivals_.insert(arrivals_.end(), arrived_scratch_.begin(), arrived_scratch_.end());
    return moved || completed_prefix_ != before;
}

void TransferProxy::complete(std::uint64_t position) {
    if (position >= kNoticeId) return;  // its source stays as it is
    if (position < completed_prefix_ || position >= taken_ || done_[position & (rings_.fifo_slots - 1)])
        throw InternalError(fmt::format("completion of fifo position {}, which is not outstanding ({} to {} are): {}",
                                        position, completed_prefix_, taken_, session_.describe()));
    done_[position & (rings_.fifo_slots - 1)] = true;
}

bool TransferProxy::publish_arrivals() {
    if (arrivals_.empty()) return false;
    // Acquire: the relay has read an entry before it counts it as taken, so the entry may be overwritten.
    const u64 relayed = memory_.load_acquire(&rings_.lines->arrivals_taken);
    const std::uint64_t before = arrivals_posted_;
    while (!arrivals_.empty() && arrivals_posted_ - relayed < rings_.arrival_slots) {
        memory_.write(&rings_.arrivals[arrivals_posted_ & (rings_.arrival_slots - 1)], &arrivals_.front(),
                      sizeof(Arrival));
        arrivals_.pop_front();
        ++arrivals_posted_;
    }
    if (arrivals_posted_ == before) return false;
    memory_.store_release(&rings_.lines->arrivals_posted, arrivals_posted_);
    return true;
}

}  // namespace plait
