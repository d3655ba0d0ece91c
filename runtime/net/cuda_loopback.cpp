#include "runtime/net/cuda_loopback.h"

#include <deque>
#include <functional>

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/net/loopback_fabric.h"
#include "runtime/net/put_check.h"

namespace plait {
namespace {

constexpr int kStreams = 2;  // per peer; the ordered session uses the first

using StreamHandle = std::unique_ptr<cu::StreamObject, std::function<void(cu::Stream)>>;
using EventHandle = std::unique_ptr<cu::EventObject, std::function<void(cu::Event)>>;

class CudaLoopback final : public ProxySession {
public:
    explicit CudaLoopback(const CudaLoopbackOptions& options)
        : options_(options), driver_(*options_.driver), ordered_(options.contract == NetworkContract::Ordered) {
        ContextScope context(driver_, options_.context);
        CaptureModeScope capture(driver_, cu::CaptureMode::Relaxed);
        if (!ordered_)
            fabric_ = LoopbackFabric::between_processes(static_cast<std::uint32_t>(options_.world),
                                                        static_cast<std::uint32_t>(options_.rank), options_.exchange);
        cu::DevicePointer scratch = 0;
        check_driver(driver_, driver_.memory_alloc(&scratch, kScratchBytes), "scratch of the CUDA loopback session");
        std::shared_ptr<void> scratch_owner(nullptr, [&](void*) { driver_.memory_free(scratch); });
        for (int peer = 0; peer < options_.world; ++peer) {
            peers_.push_back(std::make_unique<Peer>());
            if (options_.bases[peer] != 0) open_peer(*peers_.back(), options_.bases[peer], scratch);
        }
    }

    ~CudaLoopback() override {
        // Streams and events go with their context current, and only after their copies: the owner unmaps the workspaces
        // next, whatever it was that ended the session. Copies depend on nobody, so this ends.
        try {
            ContextScope context(driver_, options_.context);
            CaptureModeScope capture(driver_, cu::CaptureMode::Relaxed);
            for (auto& peer : peers_) {
                for (StreamHandle& stream : peer->streams)
                    if (stream) driver_.stream_synchronize(stream.get());
            }
            peers_.clear();
        } catch (const Error&) {
            peers_.clear();  // the context is gone, and its streams with it
        }
    }

    bool try_post(const PutRequest& request) override {
        const auto rank = request.destination_rank;
        const bool reachable = rank < peers_.size() && options_.bases[rank] != 0;
        check_put(request, peers_.size(), options_.workspace_bytes, reachable ? options_.workspace_bytes : 0,
                  describe());
        Peer& peer = *peers_[rank];
        if (peer.under_way.size() >= options_.queue_depth) {
            ++counters_.queue_full;
            return false;
        }
        Put put{request};
        if (ordered_)
            post_ordered(peer, &put);
        else
            post_unordered(peer, &put);
        peer.under_way.push_back(put);
        ++counters_.posted;
        counters_.bytes += request.bytes;
        return true;
    }

    bool step(std::vector<std::uint64_t>* completed, std::vector<Arrival>* arrivals) override {
        bool moved = false;
        for (auto& peer : peers_)
            moved |= ordered_ ? retire_ordered(*peer, completed) : retire_unordered(*peer, completed);
        if (ordered_) return moved;
        for (std::uint32_t sender = 0; sender < fabric_->world(); ++sender)
            while (const auto entry = fabric_->receive(static_cast<std::uint32_t>(options_.rank), sender)) {
                arrivals->push_back({entry->word[0], entry->word[1]});
                ++counters_.arrivals;
                moved = true;
            }
        return moved;
    }

    SessionCounters counters() const override { return counters_; }

    std::string describe() const override {
        return fmt::format("cuda loopback {}, rank {}, nic {}", ordered_ ? "ordered" : "unordered", options_.rank,
                           options_.nic);
    }

private:
    static constexpr std::size_t kScratchBytes = 256;

    struct Put {
        PutRequest request;
        cu::Event pending[kStreams] = {};  // null once seen done
        bool copied = false;               // the arrival may still wait for room or for its turn
    };
    struct Peer {
        StreamHandle streams[kStreams];
        std::vector<EventHandle> events;
        std::vector<cu::Event> free_events;
        std::deque<Put> under_way;
        std::uint64_t posted = 0;
    };

    // Uses every path once, reading from the peer so that nothing of its workspace changes.
    void open_peer(Peer& peer, cu::DevicePointer base, cu::DevicePointer scratch) {
        for (StreamHandle& stream : peer.streams) {
            cu::Stream created = nullptr;
            check_driver(driver_, driver_.stream_create(&created, cu::kStreamNonBlocking),
                         "stream of the CUDA loopback session");
            stream = {created, driver_.stream_destroy};
            check_driver(driver_, driver_.copy_async(scratch, base, 8, created), "first copy from a peer's workspace",
                         "is peer access mapped?");
            check_driver(driver_, driver_.stream_write_value(created, scratch + 64, 1, cu::kWriteValueDefault),
                         "first stream write");
        }
        for (std::uint64_t index = 0; index < options_.queue_depth * kStreams; ++index) {
            cu::Event event = nullptr;
            check_driver(driver_, driver_.event_create(&event, cu::kEventDisableTiming),
                         "event of the CUDA loopback session");
            peer.events.emplace_back(event, driver_.event_destroy);
            peer.free_events.push_back(event);
            check_driver(driver_, driver_.event_record(event, peer.streams[0].get(), cu::kEventDefault),
                         "first record of an event");
        }
        for (StreamHandle& stream : peer.streams)
            check_driver(driver_, driver_.stream_synchronize(stream.get()), "first use of the CUDA loopback streams");
    }

    void check_put_call(cu::Result result, const PutRequest& request, int stream, const char* call) {
        if (result == cu::kSuccess) return;
        const char* name = nullptr;
        driver_.error_name(result, &name);
        throw_failed_put({request.id, static_cast<std::uint32_t>(options_.rank), request.destination_rank, options_.nic,
                          static_cast<std::uint32_t>(stream),
                          fmt::format("{}: {}", call, name ? name : fmt::format("error {}", result))});
    }

    void copy(Peer& peer, const PutRequest& request, int stream, std::uint64_t from, std::uint64_t bytes) {
        if (bytes == 0) return;
        check_put_call(driver_.copy_async(options_.bases[request.destination_rank] + request.destination_offset + from,
                                          options_.bases[options_.rank] + request.source_offset + from, bytes,
                                          peer.streams[stream].get()),
                       request, stream, "cuMemcpyAsync");
    }

    void record(Peer& peer, Put* put, int stream) {
        put->pending[stream] = peer.free_events.back();
        peer.free_events.pop_back();
        check_put_call(driver_.event_record(put->pending[stream], peer.streams[stream].get(), cu::kEventDefault),
                       put->request, stream, "cuEventRecord");
    }

    void post_ordered(Peer& peer, Put* put) {
        const PutRequest& request = put->request;
        copy(peer, request, 0, 0, request.bytes);
        check_put_call(driver_.stream_write_value(peer.streams[0].get(),
                                                  options_.bases[request.destination_rank] + request.signal_offset,
                                                  request.signal_value, cu::kWriteValueDefault),
                       request, 0, "cuStreamWriteValue64");
        record(peer, put, 0);
    }

    void post_unordered(Peer& peer, Put* put) {
        const PutRequest& request = put->request;
        if (request.bytes == 0) return;
        const int first = static_cast<int>(peer.posted++ % kStreams), second = (first + 1) % kStreams;
        const std::uint64_t half = request.bytes >= options_.split_bytes ? request.bytes / 2 / 16 * 16 : request.bytes;
        copy(peer, request, first, 0, half);
        record(peer, put, first);
        if (half == request.bytes) return;
        copy(peer, request, second, half, request.bytes - half);
        record(peer, put, second);
    }

    // True once the events of `put` that are still pending are done.
    bool done(Peer& peer, Put* put) {
        for (int stream = 0; stream < kStreams; ++stream) {
            if (!put->pending[stream]) continue;
            const cu::Result result = driver_.event_query(put->pending[stream]);
            if (result == cu::kErrorNotReady) return false;
            check_put_call(result, put->request, stream, "completion");
            peer.free_events.push_back(put->pending[stream]);
            put->pending[stream] = nullptr;
        }
        return true;
    }

    void complete(Put* put, std::vector<std::uint64_t>* completed) {
        completed->push_back(put->request.id);
        ++counters_.completed;
    }

    bool retire_ordered(Peer& peer, std::vector<std::uint64_t>* completed) {
        bool moved = false;
        while (!peer.under_way.empty() && done(peer, &peer.under_way.front())) {
            complete(&peer.under_way.front(), completed);
            peer.under_way.pop_front();
            moved = true;
        }
        return moved;
    }

    // A put is complete once it is announced: whoever sees that nothing is under way may stop stepping.
    bool retire_unordered(Peer& peer, std::vector<std::uint64_t>* completed) {
        bool moved = false;
        for (std::size_t index = 0; index < peer.under_way.size();) {
            Put& put = peer.under_way[index];
            if (!put.copied) put.copied = done(peer, &put);
            if (!put.copied || !may_announce(peer, index) || !announce(put.request)) {
                ++index;
                continue;
            }
            complete(&put, completed);
            peer.under_way.erase(peer.under_way.begin() + static_cast<std::ptrdiff_t>(index));
            moved = true;
        }
        return moved;
    }

    static bool may_announce(const Peer& peer, std::size_t index) {
        for (std::size_t earlier = 0; earlier < index; ++earlier)
            if (peer.under_way[earlier].request.signal_offset == peer.under_way[index].request.signal_offset)
                return false;
        return true;
    }

    bool announce(const PutRequest& request) {
        return fabric_->send(request.destination_rank, static_cast<std::uint32_t>(options_.rank),
                             {{request.signal_offset, request.signal_value}});
    }

    CudaLoopbackOptions options_;
    const Driver& driver_;
    bool ordered_;
    std::shared_ptr<LoopbackFabric> fabric_;  // unordered only
    std::vector<std::unique_ptr<Peer>> peers_;
    SessionCounters counters_;
};

}  // namespace

std::unique_ptr<ProxySession> make_cuda_loopback(const CudaLoopbackOptions& options) {
    if (!options.driver || options.world < 1 || options.rank < 0 || options.rank >= options.world ||
        options.bases.size() != static_cast<std::size_t>(options.world) || options.bases[options.rank] == 0 ||
        options.queue_depth == 0)
        throw ArgumentError(
            fmt::format("a CUDA loopback session of rank {} of {} with {} workspaces and a queue of {}", options.rank,
                        options.world, options.bases.size(), options.queue_depth),
            "give a driver, one workspace per rank, the own one mapped, and a queue_depth of at least 1");
    return std::make_unique<CudaLoopback>(options);
}

}  // namespace plait
