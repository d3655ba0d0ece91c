#include "runtime/net/efa.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/net/efa_endpoint.h"
#include "runtime/net/signal_protocol.h"

namespace plait {
namespace {

constexpr int kPollBatch = 32;
constexpr std::uint64_t kCreditId = 1ull << 63;  // wr_id: this bit and the peer's rank, or the index of a record

class SrdSession final : public ProxySession {
public:
    SrdSession(std::shared_ptr<const VerbsApi> verbs, std::shared_ptr<const EfaApi> efa, const SrdOptions& options)
        : options_(options), endpoint_(std::move(verbs), std::move(efa), options), peers_(options.world) {
        const std::string own = encode_peer(endpoint_.own_info());
        for (std::uint32_t rank : options_.peers) {
            if (rank >= options_.world || rank == options_.rank || peers_[rank])
                throw ArgumentError(
                    fmt::format("peer {} of rank {} in a world of {}: named twice, itself, or not there", rank,
                                options_.rank, options_.world));
            peers_[rank] =
                std::make_unique<Peer>(options_.rank, rank, options_.slots, boxes().table(boxes().inbox_base(), rank));
            options_.exchange.set(key("at", options_.rank, rank), own);
        }
        for (std::uint32_t rank : options_.peers) meet(*peers_[rank]);
    }

    bool try_post(const PutRequest& request) override {
        Peer* peer = request.destination_rank < options_.world ? peers_[request.destination_rank].get() : nullptr;
        check_put(request, options_.world, options_.workspace.bytes, peer ? peer->remote.workspace_bytes : 0,
                  describe());
        if (!peer)
            throw TransportError(fmt::format("put {} names rank {}, which is not connected: {}", request.id,
                                             request.destination_rank, describe()));
        if (peer->posting || under_way_ >= options_.send_depth || !peer->sender.can_begin(credit_of(*peer))) {
            ++counters_.queue_full;
            return false;
        }
        Posting posting{request, claim_record(request)};
        posting.sequence = records_[posting.record].sequence = peer->sender.begin();
        peer->posting = posting;
        ++counters_.posted;
        counters_.bytes += request.bytes;
        pump(*peer);
        return true;
    }

    bool step(std::vector<std::uint64_t>* completed, std::vector<Arrival>* arrivals) override {
        std::array<ibv_wc, kPollBatch> completions;
        const int count = endpoint_.device().api().poll_cq(endpoint_.cq(), kPollBatch, completions.data());
        if (count < 0) throw_verbs_error("ibv_poll_cq", endpoint_.device().name(), errno);
        std::uint32_t received = 0;
        for (int index = 0; index < count; ++index) {
            const ibv_wc& completion = completions[static_cast<std::size_t>(index)];
            if (completion.wr_id == kSrdReceiveId) {
                on_receive(completion);
                ++received;
            } else {
                on_sent(completion, completed);
            }
        }
        endpoint_.post_receives(received);
        for (std::uint32_t rank : options_.peers) {
            Peer& peer = *peers_[rank];
            counters_.arrivals += peer.receiver.publish(arrivals);
            return_credit(peer);
            if (peer.posting) pump(peer);
        }
        return count > 0;
    }

    SessionCounters counters() const override { return counters_; }

    std::string describe() const override {
        return fmt::format("efa srd, rank {}, nic {}, queue pair {}", options_.rank, endpoint_.device().name(),
                           endpoint_.queue_pair()->qp_num);
    }

private:
    struct Posting {  // accepted, some of its writes not yet with the NIC
        PutRequest request;
        std::uint32_t record = 0;
        std::uint64_t sent_bytes = 0, sequence = 0;
    };
    struct Record {  // a put until its last write has completed
        std::uint64_t id = 0, outstanding = 0, sequence = 0;
        std::uint32_t peer = 0;
        bool all_posted = false;
    };
    struct Peer {
        Peer(std::uint32_t own, std::uint32_t other, std::uint32_t slots, const SignalDescriptor* table)
            : rank(other), sender(own, slots), receiver(other, slots, table) {}
        std::uint32_t rank;
        SrdPeerInfo remote;
        VerbsHandle<ibv_ah> path;
        SignalSender sender;
        SignalReceiver receiver;
        std::optional<Posting> posting;
        std::uint64_t credit_sent = 0;
        bool credit_under_way = false;
    };

    SrdMailboxes& boxes() { return endpoint_.boxes(); }
    std::string key(const char* what, std::uint32_t from, std::uint32_t to) const {
        return fmt::format("{}{}/{}/{}", options_.key_prefix, what, from, to);
    }
    u64 credit_of(const Peer& peer) {
        return std::atomic_ref<u64>(*boxes().credit(boxes().inbox_base(), peer.rank)).load(std::memory_order_acquire);
    }

    // The receives are posted before the endpoint is published, so a peer may write at once.
    void meet(Peer& peer) {
        const std::string who = fmt::format("rank {} to rank {}", options_.rank, peer.rank);
        peer.remote =
            decode_peer(options_.exchange.get(key("at", peer.rank, options_.rank), options_.exchange.timeout_ns),
                        fmt::format("rank {}", peer.rank));
        if (peer.remote.slots != options_.slots)
            throw TransportError(fmt::format("rank {} uses {} signal slots, rank {} uses {}", peer.rank,
                                             peer.remote.slots, options_.rank, options_.slots),
                                 "give all ranks the same options");
        peer.path = endpoint_.path_to(peer.remote, who);
    }

    std::uint32_t claim_record(const PutRequest& request) {
        if (free_records_.empty()) {
            free_records_.push_back(static_cast<std::uint32_t>(records_.size()));
            records_.emplace_back();
        }
        const std::uint32_t index = free_records_.back();
        free_records_.pop_back();
        records_[index] = Record{request.id, 0, 0, request.destination_rank, false};
        return index;
    }

    SrdWrite write_to(const Peer& peer, std::uint64_t id) const {
        SrdWrite write;
        write.id = id;
        write.path = peer.path.get();
        write.queue_pair = peer.remote.queue_pair;
        write.queue_key = peer.remote.queue_key;
        return write;
    }

    // False where the queue is full, ours or the provider's; the caller tries again after completions.
    bool post(const Peer& peer, const SrdWrite& write, std::uint64_t put_id) {
        if (under_way_ >= options_.send_depth) return false;
        const int error = endpoint_.post(write);
        if (error == ENOMEM) return false;
        if (error != 0)
            throw_failed_put({put_id, options_.rank, peer.rank, endpoint_.device().name(),
                              endpoint_.queue_pair()->qp_num, fmt::format("ibv_wr_complete: errno {}", error)});
        ++under_way_;
        return true;
    }

    void pump(Peer& peer) {
        Posting& posting = *peer.posting;
        const PutRequest& request = posting.request;
        Record& record = records_[posting.record];
        while (posting.sent_bytes < request.bytes) {
            SrdWrite write = write_to(peer, posting.record);
            write.local_address =
                reinterpret_cast<std::uint64_t>(options_.workspace.base) + request.source_offset + posting.sent_bytes;
            write.local_key = endpoint_.workspace_lkey();
            write.remote_address = peer.remote.workspace_address + request.destination_offset + posting.sent_bytes;
            write.remote_key = peer.remote.workspace_key;
            write.bytes =
                static_cast<std::uint32_t>(std::min(endpoint_.max_message_bytes(), request.bytes - posting.sent_bytes));
            write.has_immediate = true;
            write.immediate = peer.sender.immediate_of(posting.sequence, false);
            if (!post(peer, write, request.id)) return;
            posting.sent_bytes += write.bytes;
            ++record.outstanding;
        }
        if (!post(peer, descriptor_write(peer), request.id)) return;
        ++record.outstanding;
        record.all_posted = true;
        peer.posting.reset();
    }

    SrdWrite descriptor_write(Peer& peer) {
        const Posting& posting = *peer.posting;
        const PutRequest& request = posting.request;
        const std::uint32_t slot = peer.sender.slot_of(posting.sequence);
        const std::uint64_t messages =
            (request.bytes + endpoint_.max_message_bytes() - 1) / endpoint_.max_message_bytes();
        SignalDescriptor* staged = boxes().table(boxes().outbox_base(), peer.rank) + slot;
        *staged = {request.signal_offset, request.signal_value, messages, posting.sequence};
        SrdWrite write = write_to(peer, posting.record);
        write.local_address = reinterpret_cast<std::uint64_t>(staged);
        write.local_key = endpoint_.outbox_lkey();
        write.remote_address =
            peer.remote.inbox_address + boxes().table_offset(options_.rank) + slot * sizeof(SignalDescriptor);
        write.remote_key = peer.remote.inbox_key;
        write.bytes = sizeof(SignalDescriptor);
        write.has_immediate = true;
        write.immediate = peer.sender.immediate_of(posting.sequence, true);
        return write;
    }

    // One credit write under way per peer: a later one could be overtaken by an earlier one and count backwards.
    void return_credit(Peer& peer) {
        const std::uint64_t published = peer.receiver.published();
        const std::uint64_t worth = std::max(1u, options_.slots / 4);
        if (peer.credit_under_way || published - peer.credit_sent < worth) return;
        u64* staged = boxes().credit(boxes().outbox_base(), peer.rank);
        *staged = published;
        SrdWrite write = write_to(peer, kCreditId | peer.rank);
        write.local_address = reinterpret_cast<std::uint64_t>(staged);
        write.local_key = endpoint_.outbox_lkey();
        write.remote_address = peer.remote.inbox_address + boxes().credit_offset(options_.rank);
        write.remote_key = peer.remote.inbox_key;
        write.bytes = sizeof(u64);
        if (!post(peer, write, published)) return;
        peer.credit_under_way = true;
        peer.credit_sent = published;
    }

    void on_sent(const ibv_wc& completion, std::vector<std::uint64_t>* completed) {
        --under_way_;
        const bool credit = completion.wr_id & kCreditId;
        const std::uint32_t rank =
            credit ? static_cast<std::uint32_t>(completion.wr_id) : records_.at(completion.wr_id).peer;
        if (completion.status != IBV_WC_SUCCESS)
            throw_failed_put(
                {credit ? peers_[rank]->credit_sent : records_[completion.wr_id].id, options_.rank, rank,
                 endpoint_.device().name(), endpoint_.queue_pair()->qp_num,
                 fmt::format("{} (vendor error {:#x}{})", endpoint_.device().api().status_text(completion.status),
                             completion.vendor_err, credit ? ", credit write" : "")});
        if (credit) {
            peers_[rank]->credit_under_way = false;
            return;
        }
        Record& record = records_[completion.wr_id];
        if (--record.outstanding != 0 || !record.all_posted) return;
        peers_[rank]->sender.sources_free(record.sequence);
        completed->push_back(record.id);
        ++counters_.completed;
        free_records_.push_back(static_cast<std::uint32_t>(completion.wr_id));
    }

    void on_receive(const ibv_wc& completion) {
        if (completion.status != IBV_WC_SUCCESS)
            throw TransportError(fmt::format("a receive failed: {}, status {} (vendor error {:#x})", describe(),
                                             endpoint_.device().api().status_text(completion.status),
                                             completion.vendor_err));
        if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM || !(completion.wc_flags & IBV_WC_WITH_IMM))
            throw TransportError(fmt::format("a message without immediate data (opcode {}): {}",
                                             static_cast<int>(completion.opcode), describe()));
        const Immediate immediate = decode_immediate(ntohl(completion.imm_data));
        Peer* peer = immediate.sender < options_.world ? peers_[immediate.sender].get() : nullptr;
        if (!peer)
            throw TransportError(
                fmt::format("immediate of rank {}, which is not connected: {}", immediate.sender, describe()));
        peer->receiver.on_immediate(immediate);
    }

    SrdOptions options_;
    SrdEndpoint endpoint_;
    std::vector<std::unique_ptr<Peer>> peers_;  // by rank; paths are freed before the device
    std::vector<Record> records_;
    std::vector<std::uint32_t> free_records_;
    std::uint64_t under_way_ = 0;  // work requests with the NIC
    SessionCounters counters_;
};

}  // namespace

std::unique_ptr<ProxySession> make_srd_session(std::shared_ptr<const VerbsApi> verbs, std::shared_ptr<const EfaApi> efa,
                                               const SrdOptions& options) {
    constexpr std::uint64_t kVerbsMessageBytes = 1ull << 31;
    check_immediate_budget(options.world, options.slots);
    if (options.rank >= options.world || options.send_depth < 2 || options.receive_depth < 2 ||
        options.max_message_bytes == 0 || options.max_message_bytes > kVerbsMessageBytes)
        throw ArgumentError(
            fmt::format("an SRD session of rank {} of {} with send_depth {}, receive_depth {}, max_message_bytes {}",
                        options.rank, options.world, options.send_depth, options.receive_depth,
                        options.max_message_bytes),
            "depths at least 2, max_message_bytes 1 to 2 GiB");
    return std::make_unique<SrdSession>(std::move(verbs), std::move(efa), options);
}

}  // namespace plait
