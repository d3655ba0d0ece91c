#include "runtime/sim/sim_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace plait {
namespace {

// Transfers whose writes are told apart by clocks: knowing of one does not imply knowing of the others.
constexpr std::uint64_t kWriteStreams = 16;
// A payload travels in at most this many pieces.
constexpr std::uint64_t kMaxPieces = 4;
constexpr std::uint64_t kPieceAlignment = 128;

}  // namespace

bool SimProxySession::try_post(const PutRequest& request) {
    if (in_flight_ >= network_.queue_depth_) {
        ++counters_.queue_full;
        return false;
    }
    network_.post(rank_, request);
    ++in_flight_;
    ++counters_.posted;
    counters_.bytes += request.bytes;
    return true;
}

bool SimProxySession::step(std::vector<std::uint64_t>* completed, std::vector<Arrival>* arrivals) {
    if (completed_.empty() && arrived_.empty()) return false;
    SimActor& actor = network_.hosts_[rank_]->actor;
    OrderModel& order = network_.engine_.order();
    for (const Done& done : completed_) {
        completed->push_back(done.id);
        order.learn(actor, Lane::Members, done.read);
        --in_flight_;
        ++counters_.completed;
    }
    for (const Arrived& arrived : arrived_) {
        arrivals->push_back(arrived.arrival);
        if (order.enabled()) actor.lanes[0].known.generic.global.join(arrived.clock);
        ++counters_.arrivals;
    }
    completed_.clear();
    arrived_.clear();
    return true;
}

std::string SimProxySession::describe() const {
    return fmt::format("simulated {}, rank {}",
                       network_.contract_ == NetworkContract::Ordered ? "ordered" : "unordered", rank_);
}

u64 SimMemoryPort::load_acquire(const u64* word) {
    engine_.order().acquire_word(actor_, Lane::Members, word, Scope::System);
    return *word;
}

void SimMemoryPort::store_release(u64* word, u64 value) {
    *word = value;
    engine_.order().release_word(actor_, Lane::Members, word, Update::Set, Scope::System);
    engine_.word_changed(engine_.order().region_of(actor_, word, sizeof(u64), "a proxy's store"), word);
}

void SimMemoryPort::read(void* destination, const void* source, std::uint64_t bytes) {
    const Epoch tag = engine_.order().own_epoch(actor_, Lane::Members);
    engine_.order().access(actor_, Lane::Members, Proxy::Generic, Access::Read, {source, bytes, 1, bytes}, tag,
                           "a proxy's load");
    std::memcpy(destination, source, bytes);
}

void SimMemoryPort::write(void* destination, const void* source, std::uint64_t bytes) {
    const Epoch tag = engine_.order().own_epoch(actor_, Lane::Members);
    engine_.order().access(actor_, Lane::Members, Proxy::Generic, Access::Write, {destination, bytes, 1, bytes}, tag,
                           "a proxy's store");
    std::memcpy(destination, source, bytes);
}

SimNetwork::SimNetwork(Engine& engine, const SimOptions& options, const std::vector<ProxyRings>& rings)
    : engine_(engine), contract_(options.network), queue_depth_(options.send_queue_depth) {
    for (int r = 0; r < engine.world(); ++r) {
        auto host = std::make_unique<Host>();
        host->actor.rank = r;
        host->actor.node = engine.rank(r).node;
        host->actor.name = "proxy";
        engine.order().start(host->actor, engine.order().component(host->actor.fault_actor().describe()), {});
        host->port = std::make_unique<SimMemoryPort>(engine, host->actor);
        host->session = std::make_unique<SimProxySession>(*this, r);
        host->proxy = std::make_unique<TransferProxy>(rings[r], *host->session, *host->port);
        host->proxy->set_abort_notice(abort_notice(r, engine.world(), engine.ranks_per_node()));
        hosts_.push_back(std::move(host));
    }
    engine.scheduler().add_source(*this);
    engine.set_host_listener(this);
}

void SimNetwork::host_word_changed(int rank) {
    if (hosts_[rank]->poked) return;
    hosts_[rank]->poked = true;
    poked_.push_back(rank);
}

// Whether the transfer is one that run_one may pick. A transfer that waits behind another of its pair lets that one
// move.
bool SimNetwork::movable(const SimTransfer& transfer) const {
    if (transfer.held) return false;
    return !transfer.delivered || !transfer.completion_held;
}

std::uint64_t SimNetwork::pending() const {
    std::uint64_t count = poked_.size();
    for (const auto& transfer : transfers_) count += movable(*transfer);
    return count;
}

void SimNetwork::run_one(Random& random) {
    std::uint64_t chosen = random.below(pending());
    if (chosen < poked_.size()) {
        const int rank = poked_[chosen];
        poked_.erase(poked_.begin() + static_cast<std::ptrdiff_t>(chosen));
        hosts_[rank]->poked = false;
        if (engine_.lost(rank)) return;
        if (hosts_[rank]->proxy->step()) host_word_changed(rank);
        return;
    }
    chosen -= poked_.size();
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
        if (movable(*transfers_[i]) && chosen-- == 0) return advance(i, random);
    }
}

// Deliveries before completions: what a waiter on the other side needs comes first.
bool SimNetwork::force(Random& random) {
    for (bool SimTransfer::* flag : {&SimTransfer::held, &SimTransfer::completion_held}) {
        std::vector<SimTransfer*> candidates;
        for (const auto& transfer : transfers_) {
            if ((*transfer).*flag) candidates.push_back(transfer.get());
        }
        if (candidates.empty()) continue;
        candidates[random.below(candidates.size())]->*flag = false;
        return true;
    }
    return false;
}

std::uint8_t* SimNetwork::workspace_bytes(int rank, std::uint64_t offset, std::uint64_t bytes, const SimActor& actor,
                                          const char* what) const {
    std::uint8_t* base = engine_.rank(rank).workspace;
    const std::uint64_t size = engine_.memory().find(base)->bytes;
    if (offset > size || bytes > size - offset)
        throw SimulationFault("outside", actor.fault_actor(),
                              fmt::format("{}: bytes [{}, {}) of the workspace of rank {}, which has {}", what, offset,
                                          offset + bytes, rank, size));
    return base + offset;
}

// Checked when it is posted: from here to its completion the NIC may read the source at any time, and from here to its
// signal it may write the destination.
void SimNetwork::post(int from, const PutRequest& request) {
    Host& host = *hosts_[from];
    OrderModel& order = engine_.order();
    if (request.destination_rank >= hosts_.size() || static_cast<int>(request.destination_rank) == from)
        throw SimulationFault("outside", host.actor.fault_actor(),
                              fmt::format("a transfer to rank {}", request.destination_rank));
    const int to = static_cast<int>(request.destination_rank);
    auto transfer = std::make_unique<SimTransfer>();
    transfer->from = from;
    transfer->to = to;
    transfer->request = request;
    const std::uint8_t* source =
        workspace_bytes(from, request.source_offset, request.bytes, host.actor, "a transfer's source");
    std::uint8_t* destination =
        workspace_bytes(to, request.destination_offset, request.bytes, host.actor, "a transfer's destination");
    workspace_bytes(to, request.signal_offset, sizeof(u64), host.actor, "a transfer's signal");
    const auto time = static_cast<std::uint32_t>(++host.posted);
    if (order.enabled()) {
        transfer->read = {order.component(fmt::format("the NIC of rank {}, reading", from)), time};
        transfer->write = {order.component(fmt::format("the NIC of rank {}, stream {}", from, time % kWriteStreams)),
                           time};
        order.access(host.actor, Lane::Members, Proxy::Generic, Access::Read, {source, request.bytes, 1, request.bytes},
                     transfer->read, "a NIC's read");
        order.access(host.actor, Lane::Members, Proxy::Generic, Access::Write,
                     {destination, request.bytes, 1, request.bytes}, transfer->write, "a NIC's write");
        transfer->clock = host.actor.lanes[0].known.generic.global;
        transfer->clock.raise(transfer->write.component, time);
    }
    const std::uint64_t piece = (request.bytes / kMaxPieces / kPieceAlignment + 1) * kPieceAlignment;
    for (std::uint64_t byte = 0; byte < request.bytes; byte += piece) transfer->missing.push_back(byte);
    transfer->held = engine_.random().chance(1, 4);
    transfer->completion_held = engine_.random().chance(1, 4);
    engine_.traffic().count(from, to, true, request.bytes);
    transfers_.push_back(std::move(transfer));
}

std::size_t SimNetwork::head_of_pair(std::size_t index) const {
    for (std::size_t i = 0; i < index; ++i) {
        const SimTransfer& earlier = *transfers_[i];
        if (earlier.from == transfers_[index]->from && earlier.to == transfers_[index]->to && !earlier.delivered)
            return i;
    }
    return index;
}

bool SimNetwork::may_deliver(std::size_t index) const {
    const SimTransfer& transfer = *transfers_[index];
    if (transfer.delivered || !transfer.source_read) return false;
    return contract_ == NetworkContract::Unordered || head_of_pair(index) == index;
}

// One step of one transfer, or of the one that it waits behind.
void SimNetwork::advance(std::size_t index, Random& random) {
    const auto arrived = [](const SimTransfer& t) { return t.missing.empty() && t.announced; };
    const auto can_deliver = [&](std::size_t i) {
        return may_deliver(i) && !(arrived(*transfers_[i]) && head_of_pair(i) != i);
    };
    const auto can_complete = [&](const SimTransfer& t) { return !t.completed && !t.completion_held; };
    if (transfers_[index]->source_read && !can_deliver(index) && !can_complete(*transfers_[index]))
        index = head_of_pair(index);
    SimTransfer& transfer = *transfers_[index];
    transfer.held = false;  // one that holds back others of its pair
    if (!transfer.source_read) return read_source(transfer);
    const bool deliverable = can_deliver(index);
    if (can_complete(transfer) && (!deliverable || random.chance(1, 4))) {
        complete(transfer);
    } else if (deliverable) {
        const bool ordered = contract_ == NetworkContract::Ordered;
        const std::size_t messages = transfer.missing.size() + (transfer.announced ? 0 : 1);
        const std::size_t message = ordered || messages == 0 ? 0 : random.below(messages);
        if (message < transfer.missing.size())
            deliver_piece(transfer, message);
        else
            transfer.announced = true;
        if (arrived(transfer)) announce(index);
    }
    std::erase_if(transfers_, [](const auto& held) { return held->delivered && held->completed; });
}

void SimNetwork::read_source(SimTransfer& transfer) {
    const PutRequest& request = transfer.request;
    const std::uint8_t* source = engine_.rank(transfer.from).workspace + request.source_offset;
    transfer.payload.assign(source, source + request.bytes);
    transfer.source_read = true;
}

void SimNetwork::complete(SimTransfer& transfer) {
    transfer.completed = true;
    hosts_[transfer.from]->session->completed_.push_back({transfer.request.id, transfer.read});
    host_word_changed(transfer.from);
}

void SimNetwork::deliver_piece(SimTransfer& transfer, std::size_t piece) {
    const PutRequest& request = transfer.request;
    const std::uint64_t first = transfer.missing[piece];
    const std::uint64_t size = (request.bytes / kMaxPieces / kPieceAlignment + 1) * kPieceAlignment;
    std::memcpy(engine_.rank(transfer.to).workspace + request.destination_offset + first,
                transfer.payload.data() + first, std::min(size, request.bytes - first));
    transfer.missing.erase(transfer.missing.begin() + static_cast<std::ptrdiff_t>(piece));
}

// All of it has arrived. The pair's transfers are announced in the order of posting.
void SimNetwork::announce(std::size_t index) {
    if (head_of_pair(index) != index) return;
    const int from = transfers_[index]->from, to = transfers_[index]->to;
    for (std::size_t i = index; i < transfers_.size(); ++i) {
        SimTransfer& transfer = *transfers_[i];
        if (transfer.from != from || transfer.to != to) continue;
        if (!transfer.missing.empty() || !transfer.announced) break;
        publish(transfer);
    }
}

void SimNetwork::publish(SimTransfer& transfer) {
    transfer.delivered = true;
    const PutRequest& request = transfer.request;
    if (contract_ == NetworkContract::Unordered) {
        hosts_[transfer.to]->session->arrived_.push_back(
            {{request.signal_offset, request.signal_value}, transfer.clock});
        return host_word_changed(transfer.to);
    }
    auto* flag = reinterpret_cast<u64*>(engine_.rank(transfer.to).workspace + request.signal_offset);
    *flag = request.signal_value;
    engine_.order().release_word(transfer.from, transfer.clock, flag);
    engine_.word_changed(*engine_.memory().find(flag), flag);
}

std::string SimNetwork::describe_host(int rank) const {
    const TransferProxy& proxy = *hosts_[rank]->proxy;
    return fmt::format("rank {}, proxy: {} commands taken, {} complete", rank, proxy.taken(), proxy.completed_prefix());
}

}  // namespace plait
