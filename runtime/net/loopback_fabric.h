// What the loopback sessions of one host share apart from the workspaces: for each (receiver, sender) a mailbox of
// messages that the receiving side has to look at, that sender's descriptor table, and the credit word.
//
// Each mailbox has one writer and one reader: entry first, then `posted` (release); `taken` (release) frees entries.
// In one process it is ordinary memory; between processes a memfd, which has no name, so that nothing is left behind
// however they end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/net/exchange.h"
#include "runtime/net/signal_protocol.h"
#include "templates/abi/flag.h"

namespace plait {

inline constexpr std::uint32_t kMailboxEntries = 256;  // power of two
inline constexpr std::uint32_t kLoopbackSlots = 64;    // puts under way from one sender to one receiver

struct MailboxEntry {
    u64 word[2];
};

struct LoopbackChannel {
    alignas(kFlagLineBytes) u64 posted;  // written by the sender
    alignas(kFlagLineBytes) u64 taken;   // written by the receiver
    alignas(kFlagLineBytes) u64 credit;  // written by the receiver: puts published
    alignas(kFlagLineBytes) MailboxEntry ring[kMailboxEntries];
    SignalDescriptor descriptors[kLoopbackSlots];
};

class LoopbackFabric {
public:
    // ArgumentError: no ranks, or more than the immediate data can name.
    static std::shared_ptr<LoopbackFabric> in_process(std::uint32_t world);
    // Collective over the ranks of one host. TransportError: shared memory cannot be had, a rank does not come.
    static std::shared_ptr<LoopbackFabric> between_processes(std::uint32_t world, std::uint32_t rank,
                                                             const Exchange& exchange);
    ~LoopbackFabric();
    LoopbackFabric(const LoopbackFabric&) = delete;
    LoopbackFabric& operator=(const LoopbackFabric&) = delete;

    std::uint32_t world() const { return world_; }
    LoopbackChannel& channel(std::uint32_t receiver, std::uint32_t sender) {
        return channels_[receiver * world_ + sender];
    }
    bool send(std::uint32_t receiver, std::uint32_t sender, const MailboxEntry& entry);  // false: full
    std::optional<MailboxEntry> receive(std::uint32_t receiver, std::uint32_t sender);

private:
    LoopbackFabric(std::uint32_t world, void* memory, std::size_t bytes);
    std::uint32_t world_;
    LoopbackChannel* channels_;
    std::size_t bytes_;
};

}  // namespace plait
