#include "runtime/net/loopback_nic.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr std::uint64_t kVirtualStepNs = 1000;    // the virtual clock moves by up to this at each progress()
constexpr std::uint64_t kVirtualJitterNs = 6000;  // where none is given: several steps, so that everything overtakes
constexpr std::uint64_t kEventsPerRound = 64;

}  // namespace

LoopbackNic::LoopbackNic(std::uint32_t world, const LoopbackNicOptions& options, DeliverImmediate deliver)
    : options_(options),
      deliver_(std::move(deliver)),
      random_(options.seed),
      start_(std::chrono::steady_clock::now()),
      outstanding_(world, 0),
      last_packet_ns_(world, 0),
      last_completion_ns_(world, 0) {
    if (options.queue_depth == 0 || options.packet_bytes == 0)
        throw ArgumentError(fmt::format("a loopback NIC with queue_depth {} and packet_bytes {}", options.queue_depth,
                                        options.packet_bytes),
                            "both must be at least 1");
    if (options.seed != 0 && options.jitter_ns == 0) options_.jitter_ns = kVirtualJitterNs;
}

std::uint64_t LoopbackNic::now() {
    if (options_.seed != 0) return virtual_ns_;
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count());
}

std::uint64_t LoopbackNic::jitter() { return options_.jitter_ns == 0 ? 0 : random_() % options_.jitter_ns; }

// On an ordered connection nothing overtakes: each time is at least the last one of that peer.
std::uint64_t LoopbackNic::in_order(std::uint64_t due_ns, std::uint64_t* last_ns) const {
    if (options_.delivery == NetworkContract::Unordered) return due_ns;
    return *last_ns = std::max(due_ns, *last_ns);
}

void LoopbackNic::push(std::uint64_t due_ns, EventKind kind, std::uint32_t message, std::uint64_t offset,
                       std::uint64_t bytes) {
    events_.push({due_ns, serial_++, kind, message, offset, bytes});
}

bool LoopbackNic::post(const LoopbackWork& work) {
    if (room(work.peer) == 0) return false;
    ++outstanding_[work.peer];
    ++posted_;
    std::uint32_t index;
    if (free_messages_.empty()) {
        index = static_cast<std::uint32_t>(messages_.size());
        messages_.emplace_back();
    } else {
        index = free_messages_.back();
        free_messages_.pop_back();
    }
    const std::uint64_t packets =
        std::max<std::uint64_t>(1, (work.bytes + options_.packet_bytes - 1) / options_.packet_bytes);
    messages_[index] = {work, packets, options_.fail_message != 0 && posted_ == options_.fail_message};
    const std::uint64_t at = now();
    if (messages_[index].fails) {
        push(at + 2 * options_.latency_ns, EventKind::Completion, index, 0, 0);
        return true;
    }
    for (std::uint64_t packet = 0; packet < packets; ++packet) {
        const std::uint64_t offset = packet * options_.packet_bytes;
        const std::uint64_t bytes = work.bytes == 0 ? 0 : std::min(options_.packet_bytes, work.bytes - offset);
        port_free_ns_ = std::max(port_free_ns_, at);
        if (options_.bytes_per_second != 0) port_free_ns_ += bytes * 1'000'000'000ull / options_.bytes_per_second;
        push(in_order(port_free_ns_ + options_.latency_ns + jitter(), &last_packet_ns_[work.peer]), EventKind::Packet,
             index, offset, bytes);
    }
    return true;
}

bool LoopbackNic::progress(std::vector<LoopbackCompletion>* completions) {
    if (options_.seed != 0) virtual_ns_ += 1 + random_() % kVirtualStepNs;
    now_ns_ = now();
    std::uint64_t handled = 0;
    while (!events_.empty() && events_.top().due_ns <= now_ns_ && handled < kEventsPerRound) {
        const Event event = events_.top();
        events_.pop();
        ++handled;
        Message& message = messages_[event.message];
        switch (event.kind) {
            case EventKind::Packet:
                packet_arrives(event);
                break;
            case EventKind::Immediate:
                message_arrives(event.message, event.due_ns);
                break;
            case EventKind::Completion:
                completions->push_back({message.work.id, message.work.peer, message.fails});
                --outstanding_[message.work.peer];
                free_messages_.push_back(event.message);
                break;
        }
    }
    return handled != 0;
}

void LoopbackNic::packet_arrives(const Event& event) {
    Message& message = messages_[event.message];
    if (message.work.flag)
        std::atomic_ref<u64>(*message.work.flag).store(message.work.flag_value, std::memory_order_release);
    else if (event.bytes != 0)
        std::memcpy(message.work.destination + event.offset, message.work.source + event.offset, event.bytes);
    if (--message.packets_left == 0) message_arrives(event.message, event.due_ns);
}

void LoopbackNic::message_arrives(std::uint32_t index, std::uint64_t at_ns) {
    const LoopbackWork& work = messages_[index].work;
    if (work.has_immediate && !deliver_(work.peer, work.immediate)) {
        push(now_ns_ + 1, EventKind::Immediate, index, 0, 0);  // receiver not ready
        return;
    }
    push(in_order(at_ns + options_.latency_ns + jitter(), &last_completion_ns_[work.peer]), EventKind::Completion,
         index, 0, 0);
}

}  // namespace plait
