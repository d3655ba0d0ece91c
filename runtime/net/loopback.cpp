#include "runtime/net/loopback.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

class LoopbackSession final : public ProxySession {
public:
    LoopbackSession(const LoopbackEndpoint& endpoint, const LoopbackOptions& options)
        : endpoint_(endpoint),
          options_(options),
          by_immediate_(options.delivery == NetworkContract::Unordered && !options.flag_after_data),
          nic_(world(), options, [this](std::uint32_t peer, std::uint32_t immediate) {
              return endpoint_.fabric->send(peer, endpoint_.rank, {{immediate, 0}});
          }) {
        for (std::uint32_t peer = 0; peer < world(); ++peer)
            peers_.push_back(std::make_unique<Peer>(endpoint_.rank, peer,
                                                    endpoint_.fabric->channel(endpoint_.rank, peer).descriptors));
    }

    bool try_post(const PutRequest& request) override {
        const std::uint32_t rank = request.destination_rank;
        check_put(request, world(), workspace(endpoint_.rank).bytes, rank < world() ? workspace(rank).bytes : 0,
                  describe());
        Peer& peer = *peers_[rank];
        if (peer.posting || nic_.room(rank) == 0 || (by_immediate_ && !peer.sender.can_begin(credit_of(rank)))) {
            ++counters_.queue_full;
            return false;
        }
        Posting posting{request, claim_record(request, rank)};
        if (by_immediate_) posting.sequence = records_[posting.record].sequence = peer.sender.begin();
        peer.posting = posting;
        ++counters_.posted;
        counters_.bytes += request.bytes;
        pump(peer);
        return true;
    }

    bool step(std::vector<std::uint64_t>* completed, std::vector<Arrival>* arrivals) override {
        completions_.clear();
        bool moved = nic_.progress(&completions_);
        for (const LoopbackCompletion& completion : completions_) on_completion(completion, completed);
        for (auto& peer : peers_)
            if (peer->posting) pump(*peer);
        if (by_immediate_)
            for (std::uint32_t sender = 0; sender < world(); ++sender) moved |= receive(sender, arrivals);
        return moved;
    }

    SessionCounters counters() const override { return counters_; }

    std::string describe() const override {
        return fmt::format("loopback {}, rank {}, nic {}",
                           options_.delivery == NetworkContract::Ordered ? "ordered" : "unordered", endpoint_.rank,
                           endpoint_.nic);
    }

private:
    struct Posting {  // accepted, some of its messages not yet in the NIC's queue
        PutRequest request;
        std::uint32_t record = 0;
        std::uint64_t sent_bytes = 0, sequence = 0;
    };
    struct Record {  // a put until its last message has completed
        std::uint64_t id = 0, outstanding = 0, sequence = 0;
        std::uint32_t peer = 0;
        bool all_posted = false;
    };
    struct Peer {
        Peer(std::uint32_t rank, std::uint32_t peer, const SignalDescriptor* table)
            : sender(rank, kLoopbackSlots), receiver(peer, kLoopbackSlots, table) {}
        std::optional<Posting> posting;
        SignalSender sender;
        SignalReceiver receiver;
        std::array<SignalDescriptor, kLoopbackSlots> staging{};  // sources of descriptor writes
    };

    std::uint32_t world() const { return static_cast<std::uint32_t>(endpoint_.workspaces.size()); }
    const MemoryRegion& workspace(std::uint32_t rank) const { return endpoint_.workspaces[rank]; }
    u64 credit_of(std::uint32_t rank) {
        return std::atomic_ref<u64>(endpoint_.fabric->channel(rank, endpoint_.rank).credit)
            .load(std::memory_order_acquire);
    }

    std::uint32_t claim_record(const PutRequest& request, std::uint32_t peer) {
        if (free_records_.empty()) {
            free_records_.push_back(static_cast<std::uint32_t>(records_.size()));
            records_.emplace_back();
        }
        const std::uint32_t index = free_records_.back();
        free_records_.pop_back();
        records_[index] = Record{request.id, 0, 0, peer, false};
        return index;
    }

    // Posts what fits. Each message carries its record's index as work id.
    void pump(Peer& peer) {
        Posting& posting = *peer.posting;
        const PutRequest& request = posting.request;
        while (posting.sent_bytes < request.bytes) {
            LoopbackWork work = work_of(posting);
            work.source = workspace(endpoint_.rank).base + request.source_offset + posting.sent_bytes;
            work.destination =
                workspace(request.destination_rank).base + request.destination_offset + posting.sent_bytes;
            work.bytes = std::min(options_.max_message_bytes, request.bytes - posting.sent_bytes);
            if (by_immediate_) work.immediate = peer.sender.immediate_of(posting.sequence, false);
            if (!nic_.post(work)) return;
            posting.sent_bytes += work.bytes;
            ++records_[posting.record].outstanding;
        }
        if (!nic_.post(by_immediate_ ? descriptor_work(peer) : flag_work(posting))) return;
        ++records_[posting.record].outstanding;
        records_[posting.record].all_posted = true;
        peer.posting.reset();
    }

    LoopbackWork work_of(const Posting& posting) const {
        LoopbackWork work;
        work.id = posting.record;
        work.peer = posting.request.destination_rank;
        work.has_immediate = by_immediate_;
        return work;
    }

    LoopbackWork flag_work(const Posting& posting) const {
        LoopbackWork work = work_of(posting);
        work.flag = reinterpret_cast<u64*>(workspace(work.peer).base + posting.request.signal_offset);
        work.flag_value = posting.request.signal_value;
        return work;
    }

    LoopbackWork descriptor_work(Peer& peer) {
        const Posting& posting = *peer.posting;
        const PutRequest& request = posting.request;
        const std::uint32_t slot = peer.sender.slot_of(posting.sequence);
        const std::uint64_t messages = (request.bytes + options_.max_message_bytes - 1) / options_.max_message_bytes;
        peer.staging[slot] = {request.signal_offset, request.signal_value, messages, posting.sequence};
        LoopbackWork work = work_of(posting);
        work.source = reinterpret_cast<const unsigned char*>(&peer.staging[slot]);
        work.destination = reinterpret_cast<unsigned char*>(
            &endpoint_.fabric->channel(request.destination_rank, endpoint_.rank).descriptors[slot]);
        work.bytes = sizeof(SignalDescriptor);
        work.immediate = peer.sender.immediate_of(posting.sequence, true);
        return work;
    }

    void on_completion(const LoopbackCompletion& completion, std::vector<std::uint64_t>* completed) {
        Record& record = records_[completion.id];
        if (completion.failed)
            throw_failed_put({record.id, endpoint_.rank, completion.peer, endpoint_.nic, completion.peer,
                              "transport retry counter exceeded (emulated)"});
        if (--record.outstanding != 0 || !record.all_posted) return;
        if (by_immediate_) peers_[record.peer]->sender.sources_free(record.sequence);
        completed->push_back(record.id);
        ++counters_.completed;
        free_records_.push_back(static_cast<std::uint32_t>(completion.id));
    }

    bool receive(std::uint32_t sender, std::vector<Arrival>* arrivals) {
        SignalReceiver& receiver = peers_[sender]->receiver;
        bool moved = false;
        while (const auto entry = endpoint_.fabric->receive(endpoint_.rank, sender)) {
            const Immediate immediate = decode_immediate(static_cast<std::uint32_t>(entry->word[0]));
            if (immediate.sender != sender)
                throw TransportError(fmt::format("immediate of rank {} in the mailbox of rank {}: {}", immediate.sender,
                                                 sender, describe()));
            receiver.on_immediate(immediate);
            moved = true;
        }
        if (const std::uint64_t count = receiver.publish(arrivals)) {
            counters_.arrivals += count;
            std::atomic_ref<u64>(endpoint_.fabric->channel(endpoint_.rank, sender).credit)
                .store(receiver.published(), std::memory_order_release);
        }
        return moved;
    }

    LoopbackEndpoint endpoint_;
    LoopbackOptions options_;
    bool by_immediate_;
    LoopbackNic nic_;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::vector<Record> records_;
    std::vector<std::uint32_t> free_records_;
    std::vector<LoopbackCompletion> completions_;
    SessionCounters counters_;
};

}  // namespace

std::unique_ptr<ProxySession> make_loopback_session(const LoopbackEndpoint& endpoint, const LoopbackOptions& options) {
    if (!endpoint.fabric || endpoint.fabric->world() != endpoint.workspaces.size() ||
        endpoint.rank >= endpoint.workspaces.size())
        throw ArgumentError(
            fmt::format("a loopback session of rank {} with {} workspaces and a fabric of {} ranks", endpoint.rank,
                        endpoint.workspaces.size(), endpoint.fabric ? endpoint.fabric->world() : 0),
            "one workspace entry per rank of the fabric");
    if (options.max_message_bytes == 0) throw ArgumentError("max_message_bytes of a loopback session is 0");
    return std::make_unique<LoopbackSession>(endpoint, options);
}

}  // namespace plait
