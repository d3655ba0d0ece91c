#include "runtime/net/ibverbs.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <random>

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/net/ibverbs_connection.h"
#include "templates/abi/flag.h"

namespace plait {
namespace {

constexpr int kPollBatch = 32;
constexpr std::uint32_t kInlineBytes = kFlagBytes;
constexpr std::uint64_t kStepsPerClockRead = 256;
constexpr std::uint64_t kSignalsPerDepth = 4;  // at least so many signalled work requests in a full queue
constexpr int kPeerShift = 48;  // wr_id: index of the peer, then the work request's number on its queue pair
constexpr std::uint64_t kNumberMask = (1ull << kPeerShift) - 1;

class RcSession final : public ProxySession {
public:
    RcSession(std::shared_ptr<const VerbsApi> api, const RcOptions& options)
        : options_(options),
          device_(VerbsDevice::open(std::move(api), options.device)),
          memory_(device_->register_memory(options.workspace, true, options.dmabuf_fd)),
          cq_(device_->create_cq(
              static_cast<int>(std::max<std::size_t>(1, options.peers.size()) * options.send_depth))),
          peer_index_(options.world, -1) {
        options_.max_message_bytes = std::min(options_.max_message_bytes, device_->max_message_bytes());
        if (options_.max_message_bytes == 0)
            throw TransportError(
                fmt::format("port {} of nic {} says that it takes no messages", device_->port(), device_->name()));
        for (std::uint32_t rank : options_.peers) open_peer(rank);
        for (auto& peer : peers_) connect(*peer);
        for (auto& peer : peers_)
            options_.exchange.get(key("up", peer->rank, options_.rank), options_.exchange.timeout_ns);
    }

    bool try_post(const PutRequest& request) override {
        Peer* peer = peer_of(request.destination_rank);
        check_put(request, options_.world, options_.workspace.bytes, peer ? peer->remote.workspace_bytes : 0,
                  describe());
        if (!peer)
            throw TransportError(fmt::format("put {} names rank {}, which is not connected: {}", request.id,
                                             request.destination_rank, describe()));
        const std::uint64_t messages = (request.bytes + options_.max_message_bytes - 1) / options_.max_message_bytes;
        if (messages + 1 > options_.send_depth)
            throw TransportError(fmt::format("put {} of {} bytes takes {} work requests, the queue holds {}: {}",
                                             request.id, request.bytes, messages + 1, options_.send_depth, describe()),
                                 "raise send_depth");
        if (peer->numbered - peer->retired + messages + 1 > options_.send_depth) {
            ++counters_.queue_full;
            return false;
        }
        for (std::uint64_t sent = 0; sent < request.bytes; sent += options_.max_message_bytes)
            collect_payload(*peer, request, sent, std::min(options_.max_message_bytes, request.bytes - sent));
        collect_flag(*peer, request);
        peer->puts.push_back({request.id, peer->numbered});
        ++counters_.posted;
        counters_.bytes += request.bytes;
        return true;
    }

    bool step(std::vector<std::uint64_t>* completed, std::vector<Arrival>*) override {
        bool moved = false;
        if (options_.keepalive_ns != 0 && ++steps_ % kStepsPerClockRead == 0) keep_alive();
        for (auto& peer : peers_) moved |= flush(*peer);
        std::array<ibv_wc, kPollBatch> completions;
        const int count = device_->api().poll_cq(cq_.get(), kPollBatch, completions.data());
        if (count < 0) throw_verbs_error("ibv_poll_cq", device_->name(), errno);
        for (int index = 0; index < count; ++index) retire(completions[static_cast<std::size_t>(index)], completed);
        return moved || count > 0;
    }

    SessionCounters counters() const override { return counters_; }

    std::string describe() const override {
        return fmt::format("ibverbs rc, rank {}, nic {}, port {}, gid index {}", options_.rank, device_->name(),
                           device_->port(), device_->gid_index());
    }

private:
    struct Put {
        std::uint64_t id, last_number;  // number after its last work request
    };
    struct Work {  // linked when it is posted: a vector moves its elements
        ibv_send_wr request;
        ibv_sge segment;
        u64 flag;  // source of the inline flag write, read by ibv_post_send
    };
    struct Peer {
        std::uint32_t rank = 0, index = 0;
        RcEndpointInfo own, remote;
        std::uint64_t numbered = 0, retired = 0;
        std::vector<Work> collected;  // numbered, not yet with the NIC
        std::deque<Put> puts;
        std::chrono::steady_clock::time_point last_busy = std::chrono::steady_clock::now();
        VerbsHandle<ibv_qp> queue_pair;
    };

    std::string key(const char* what, std::uint32_t from, std::uint32_t to) const {
        return fmt::format("{}{}/{}/{}", options_.key_prefix, what, from, to);
    }
    Peer* peer_of(std::uint32_t rank) {
        return rank < options_.world && peer_index_[rank] >= 0
                   ? peers_[static_cast<std::size_t>(peer_index_[rank])].get()
                   : nullptr;
    }

    void open_peer(std::uint32_t rank) {
        if (rank >= options_.world || rank == options_.rank || peer_index_[rank] >= 0)
            throw ArgumentError(fmt::format("peer {} of rank {} in a world of {}: named twice, itself, or not there",
                                            rank, options_.rank, options_.world));
        auto peer = std::make_unique<Peer>();
        peer->rank = rank;
        peer->index = static_cast<std::uint32_t>(peers_.size());
        ibv_qp_init_attr attributes = {};
        attributes.send_cq = attributes.recv_cq = cq_.get();
        attributes.qp_type = IBV_QPT_RC;
        attributes.cap.max_send_wr = options_.send_depth;
        attributes.cap.max_send_sge = 1;
        attributes.cap.max_inline_data = kInlineBytes;
        const VerbsApi* api = &device_->api();
        peer->queue_pair = {api->create_qp(device_->pd(), &attributes), [api](ibv_qp* qp) { api->destroy_qp(qp); }};
        if (!peer->queue_pair)
            throw_verbs_error(fmt::format("ibv_create_qp with {} work requests and {} inline bytes",
                                          options_.send_depth, kInlineBytes),
                              device_->name(), errno, "a smaller send_depth may fit");
        std::random_device entropy;
        peer->own = {device_->address(),       peer->queue_pair->qp_num,
                     entropy() & 0xffffff,     reinterpret_cast<std::uint64_t>(options_.workspace.base),
                     options_.workspace.bytes, memory_->rkey};
        options_.exchange.set(key("at", options_.rank, rank), encode_endpoint(peer->own));
        peer_index_[rank] = static_cast<int>(peers_.size());
        peers_.push_back(std::move(peer));
    }

    // A peer may write as soon as its side is in RTS, so each side says when its own receives.
    void connect(Peer& peer) {
        const std::string who = fmt::format("rank {} to rank {}", options_.rank, peer.rank);
        peer.remote =
            decode_endpoint(options_.exchange.get(key("at", peer.rank, options_.rank), options_.exchange.timeout_ns),
                            fmt::format("rank {}", peer.rank));
        connect_queue_pair(*device_, peer.queue_pair.get(), peer.own, peer.remote,
                           {options_.timeout, options_.retry_count}, who);
        options_.exchange.set(key("up", options_.rank, peer.rank), "1");
    }

    Work& collect(Peer& peer, std::uint64_t remote_offset) {
        Work& work = peer.collected.emplace_back(Work{});
        work.request.wr_id = static_cast<std::uint64_t>(peer.index) << kPeerShift | ++peer.numbered;
        work.request.num_sge = 1;
        work.request.opcode = IBV_WR_RDMA_WRITE;
        work.request.wr.rdma.remote_addr = peer.remote.workspace_address + remote_offset;
        work.request.wr.rdma.rkey = peer.remote.workspace_key;
        return work;
    }

    void collect_payload(Peer& peer, const PutRequest& request, std::uint64_t from, std::uint64_t bytes) {
        Work& work = collect(peer, request.destination_offset + from);
        work.segment = {reinterpret_cast<std::uint64_t>(options_.workspace.base) + request.source_offset + from,
                        static_cast<std::uint32_t>(bytes), memory_->lkey};
    }

    void collect_flag(Peer& peer, const PutRequest& request) {
        Work& work = collect(peer, request.signal_offset);
        work.request.send_flags = IBV_SEND_INLINE;
        work.flag = request.signal_value;
        work.segment = {0, kFlagBytes, 0};
    }

    // An empty write moves nothing and needs no key, but the peer must acknowledge it (InfiniBand spec, 9.7.5).
    void keep_alive() {
        const auto now = std::chrono::steady_clock::now();
        for (auto& peer : peers_) {
            if (peer->numbered != peer->retired) peer->last_busy = now;
            if (now - peer->last_busy < std::chrono::nanoseconds(options_.keepalive_ns)) continue;
            collect(*peer, 0).request.num_sge = 0;
        }
    }

    bool flush(Peer& peer) {
        if (peer.collected.empty()) return false;
        for (std::size_t index = 0; index < peer.collected.size(); ++index) {
            Work& work = peer.collected[index];
            if (work.request.send_flags & IBV_SEND_INLINE)
                work.segment.addr = reinterpret_cast<std::uint64_t>(&work.flag);
            work.request.sg_list = &work.segment;
            work.request.next = index + 1 < peer.collected.size() ? &peer.collected[index + 1].request : nullptr;
        }
        // Besides the last one every so many, by number: a provider that takes a part of a batch must not be left full of
        // work requests of which none says that it is done.
        const std::uint64_t stride = std::max<std::uint64_t>(1, options_.send_depth / kSignalsPerDepth);
        for (Work& work : peer.collected) {
            if ((work.request.wr_id & kNumberMask) % stride == 0) work.request.send_flags |= IBV_SEND_SIGNALED;
        }
        peer.collected.back().request.send_flags |= IBV_SEND_SIGNALED;
        ibv_send_wr* bad = nullptr;
        const int error = device_->api().post_send(peer.queue_pair.get(), &peer.collected.front().request, &bad);
        if (error == 0) {
            peer.collected.clear();
            return true;
        }
        if (error != ENOMEM)
            throw_failed_put({id_of(peer, peer.collected.front().request.wr_id & kNumberMask), options_.rank, peer.rank,
                              device_->name(), peer.queue_pair->qp_num, fmt::format("ibv_post_send: errno {}", error)});
        // The provider's queue is full although ours is not: what it took is gone, the rest goes out at the next step.
        const auto first_left = std::find_if(peer.collected.begin(), peer.collected.end(),
                                             [bad](const Work& work) { return &work.request == bad; });
        const bool moved = first_left != peer.collected.begin();
        peer.collected.erase(peer.collected.begin(), first_left);
        ++counters_.queue_full;
        return moved;
    }

    static std::uint64_t id_of(const Peer& peer, std::uint64_t number) {
        for (const Put& put : peer.puts)
            if (number <= put.last_number) return put.id;
        return ~0ull;  // a keep-alive, of no put
    }

    // Work requests of a queue pair complete in order: a completion retires all up to its own number.
    void retire(const ibv_wc& completion, std::vector<std::uint64_t>* completed) {
        const std::uint64_t index = completion.wr_id >> kPeerShift, number = completion.wr_id & kNumberMask;
        if (index >= peers_.size())
            throw InternalError(fmt::format("completion of work request {:#x}, which was not posted: {}",
                                            completion.wr_id, describe()));
        Peer& peer = *peers_[index];
        if (completion.status != IBV_WC_SUCCESS)
            throw_failed_put({id_of(peer, number), options_.rank, peer.rank, device_->name(), peer.queue_pair->qp_num,
                              fmt::format("{} (vendor error {:#x})", device_->api().status_text(completion.status),
                                          completion.vendor_err)});
        peer.retired = std::max(peer.retired, number);
        while (!peer.puts.empty() && peer.puts.front().last_number <= peer.retired) {
            completed->push_back(peer.puts.front().id);
            peer.puts.pop_front();
            ++counters_.completed;
        }
    }

    RcOptions options_;
    std::shared_ptr<VerbsDevice> device_;  // destroyed last
    VerbsHandle<ibv_mr> memory_;
    VerbsHandle<ibv_cq> cq_;
    std::vector<int> peer_index_;               // by rank; -1: not a peer
    std::vector<std::unique_ptr<Peer>> peers_;  // queue pairs: destroyed before the completion queue
    std::uint64_t steps_ = 0;
    SessionCounters counters_;
};

}  // namespace

std::unique_ptr<ProxySession> make_rc_session(std::shared_ptr<const VerbsApi> api, const RcOptions& options) {
    constexpr std::uint64_t kVerbsMessageBytes = 1ull << 31;
    if (options.rank >= options.world || options.send_depth < 2 || options.max_message_bytes == 0 ||
        options.max_message_bytes > kVerbsMessageBytes || options.retry_count > 6)
        throw ArgumentError(
            fmt::format("an RC session of rank {} of {} with send_depth {}, max_message_bytes {}, retry_count {}",
                        options.rank, options.world, options.send_depth, options.max_message_bytes,
                        options.retry_count),
            "send_depth at least 2, max_message_bytes 1 to 2 GiB, retry_count at most 6");
    return std::make_unique<RcSession>(std::move(api), options);
}

}  // namespace plait
