// LoopbackNic: an emulated NIC that moves bytes within one host. It has one port of settable bandwidth and latency, a
// queue of bounded depth per peer, splits messages into packets, and reads a message's source when a packet leaves, so
// that a source overwritten too early sends wrong bytes here as it would on a wire.
//
// Delivery: in order per peer (RC), or packets and messages in any order, completions too (SRD). Time: the wall clock,
// or a virtual clock that a seed drives, which makes every run of a single-threaded caller repeat exactly.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "runtime/net/proxy_session.h"

namespace plait {

struct LoopbackNicOptions {
    NetworkContract delivery = NetworkContract::Ordered;
    std::uint64_t seed = 0;          // 0: wall clock
    std::uint64_t queue_depth = 64;  // work requests per peer, posted and not yet completed
    std::uint64_t packet_bytes = 64 << 10;
    std::uint64_t bytes_per_second = 0;  // 0: no limit
    std::uint64_t latency_ns = 0;        // one way
    std::uint64_t jitter_ns = 0;         // added at random to each packet and completion
    std::uint64_t fail_message = 0;      // n > 0: the n-th work request completes in error, as on a lost peer
};

struct LoopbackWork {
    std::uint64_t id = 0;
    std::uint32_t peer = 0;
    const unsigned char* source = nullptr;
    unsigned char* destination = nullptr;
    std::uint64_t bytes = 0;
    u64* flag = nullptr;  // not null: this work stores flag_value there instead of copying bytes
    u64 flag_value = 0;
    bool has_immediate = false;
    std::uint32_t immediate = 0;
};

struct LoopbackCompletion {
    std::uint64_t id = 0;
    std::uint32_t peer = 0;
    bool failed = false;
};

class LoopbackNic {
public:
    // Hands an immediate to the peer; false where the peer has no room, then the NIC tries again.
    using DeliverImmediate = std::function<bool(std::uint32_t peer, std::uint32_t immediate)>;
    LoopbackNic(std::uint32_t world, const LoopbackNicOptions& options, DeliverImmediate deliver);

    std::uint64_t room(std::uint32_t peer) const { return options_.queue_depth - outstanding_[peer]; }
    bool post(const LoopbackWork& work);  // false: the queue to that peer is full
    bool progress(std::vector<LoopbackCompletion>* completions);

private:
    struct Message {
        LoopbackWork work;
        std::uint64_t packets_left = 0;
        bool fails = false;
    };
    enum class EventKind { Packet, Immediate, Completion };
    struct Event {
        std::uint64_t due_ns, serial;
        EventKind kind;
        std::uint32_t message;
        std::uint64_t offset, bytes;
        bool operator>(const Event& other) const {
            return due_ns != other.due_ns ? due_ns > other.due_ns : serial > other.serial;
        }
    };
    std::uint64_t now();
    std::uint64_t jitter();
    std::uint64_t in_order(std::uint64_t due_ns, std::uint64_t* last_ns) const;
    void push(std::uint64_t due_ns, EventKind kind, std::uint32_t message, std::uint64_t offset, std::uint64_t bytes);
    void packet_arrives(const Event& event);
    void message_arrives(std::uint32_t message, std::uint64_t at_ns);

    LoopbackNicOptions options_;
    DeliverImmediate deliver_;
    std::mt19937_64 random_;
    std::chrono::steady_clock::time_point start_;
    std::uint64_t virtual_ns_ = 0, now_ns_ = 0, port_free_ns_ = 0, serial_ = 0, posted_ = 0;
    std::vector<std::uint64_t> outstanding_, last_packet_ns_, last_completion_ns_;  // by peer
    std::vector<Message> messages_;
    std::vector<std::uint32_t> free_messages_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace plait
