#include "runtime/sim/order.h"

#include <fmt/format.h>

namespace plait {
namespace {

const char* proxy_word(Proxy proxy) { return proxy == Proxy::Async ? "async proxy" : "ordinary"; }

// cta < 0: the host or its NIC, which no scope of a GPU includes.
bool includes(Scope scope, int rank, int cta, int other_rank, int other_cta) {
    const bool same_gpu = rank == other_rank && cta >= 0 && other_cta >= 0;
    switch (scope) {
        case Scope::Cta:
            return same_gpu && cta == other_cta;
        case Scope::Gpu:
            return same_gpu;
        case Scope::System:
            return true;
    }
    return false;
}

}  // namespace

std::uint32_t OrderModel::component(const std::string& what) {
    auto [found, added] = component_names_.try_emplace(what, static_cast<std::uint32_t>(components_.size()));
    if (added) components_.push_back(what);
    return found->second;
}

void OrderModel::start(SimActor& actor, std::uint32_t component, const Knowledge& from) {
    if (!enabled_) return;
    SimLane& lane = actor.lanes[0];
    lane.active = true;
    lane.known.generic.global.join(from.global);
    lane.known.async.global.join(from.global);
    lane.own = {component, lane.known.generic.global.get(component)};
    actor.synced_time = lane.own.time;
    advance(lane);
}

void OrderModel::advance(SimLane& lane) {
    ++lane.own.time;
    lane.known.generic.global.set(lane.own.component, lane.own.time);
}

// The elected thread is one of the members: before it acts alone it knows what they acquired, but not the ordinary
// accesses that the other threads have made since they last met.
SimLane& OrderModel::lane_of(SimActor& actor, Lane lane) {
    if (lane == Lane::Members) return actor.lanes[0];
    SimLane& elected = actor.lanes[1];
    if (elected.active || !enabled_) return elected;
    elected.active = true;
    elected.known = actor.lanes[0].known;
    const std::uint32_t members = actor.lanes[0].own.component;
    elected.known.generic.global.set(members, actor.synced_time);
    if (elected.known.async.global.get(members) > actor.synced_time)
        elected.known.async.global.set(members, actor.synced_time);
    const std::uint32_t own =
        component(FaultActor{actor.rank, actor.cta, actor.name, ""}.describe() + ", elected thread");
    elected.own = {own, elected.known.generic.global.get(own)};
    advance(elected);
    return elected;
}

template <class Apply>
void OrderModel::each_lane(SimActor& actor, Lane lane, Apply apply) {
    if (lane == Lane::Elected) return apply(lane_of(actor, lane));
    apply(actor.lanes[0]);
    if (actor.lanes[1].active) apply(actor.lanes[1]);
}

void OrderModel::fence_proxy_async(SimActor& actor, Lane lane) {
    if (!enabled_) return;
    each_lane(actor, lane, [this](SimLane& l) {
        l.known.async.join(l.known.generic);
        advance(l);
    });
}

void OrderModel::agent_sync(SimActor& actor) {
    if (!enabled_) return;
    actor.synced_time = actor.lanes[0].own.time;
    if (actor.lanes[1].active) {
        actor.lanes[0].known.join(actor.lanes[1].known);
        actor.lanes[1].known.join(actor.lanes[0].known);
        advance(actor.lanes[1]);
    }
    advance(actor.lanes[0]);
}

void OrderModel::release(SimActor& actor, Lane lane, ProxyKnowledge& into) {
    if (!enabled_) return;
    each_lane(actor, lane, [&](SimLane& l) {
        into.join(l.known);
        advance(l);
    });
}

void OrderModel::release_local(SimActor& actor, Lane lane, ProxyKnowledge& into) {
    if (!enabled_) return;
    each_lane(actor, lane, [&](SimLane& l) { into.join_local(l.known); });
}

void OrderModel::acquire(SimActor& actor, Lane lane, const ProxyKnowledge& from) {
    if (!enabled_) return;
    each_lane(actor, lane, [&](SimLane& l) { l.known.join(from); });
}

void OrderModel::learn(SimActor& actor, Lane lane, const Epoch& epoch) {
    if (!enabled_) return;
    each_lane(actor, lane, [&](SimLane& l) { l.known.raise(epoch); });
}

void OrderModel::learn_ordinary(SimActor& actor, const Epoch& epoch) {
    if (!enabled_) return;
    each_lane(actor, Lane::Members, [&](SimLane& l) { l.known.generic.raise(epoch); });
}

void OrderModel::meet(const std::vector<SimActor*>& actors) {
    if (!enabled_) return;
    ProxyKnowledge all;
    for (SimActor* actor : actors) {
        for (SimLane& lane : actor->lanes) {
            if (lane.active) all.join(lane.known);
        }
    }
    for (SimActor* actor : actors) {
        actor->synced_time = actor->lanes[0].own.time;
        for (SimLane& lane : actor->lanes) {
            if (!lane.active) continue;
            lane.known.join(all);
            advance(lane);
        }
    }
}

void OrderModel::release_word(SimActor& actor, Lane lane, const void* word, Update update, Scope scope) {
    if (!enabled_) return;
    std::vector<Release>& releases = words_[word];
    if (update == Update::Set) releases.clear();
    auto same = releases.begin();
    while (same != releases.end() && !(same->scope == scope && same->rank == actor.rank && same->cta == actor.cta))
        ++same;
    if (same == releases.end()) same = releases.insert(releases.end(), Release{scope, actor.rank, actor.cta, {}});
    each_lane(actor, lane, [&](SimLane& l) {
        same->clock.join(l.known.generic.global);
        advance(l);
    });
}

void OrderModel::release_word(int rank, const Clock& clock, const void* word) {
    if (!enabled_) return;
    std::vector<Release>& releases = words_[word];
    releases.clear();
    releases.push_back({Scope::System, rank, -1, clock});
}

void OrderModel::relaxed_word(const void* word, Update update) {
    if (enabled_ && update == Update::Set) words_.erase(word);
}

void OrderModel::acquire_word(SimActor& actor, Lane lane, const void* word, Scope scope) {
    if (!enabled_) return;
    auto found = words_.find(word);
    if (found == words_.end()) return;
    for (const Release& release : found->second) {
        const bool ordered = includes(release.scope, release.rank, release.cta, actor.rank, actor.cta) &&
                             includes(scope, actor.rank, actor.cta, release.rank, release.cta);
        if (ordered) each_lane(actor, lane, [&](SimLane& l) { l.known.generic.global.join(release.clock); });
    }
}

Region& OrderModel::region_of(const SimActor& actor, const void* address, std::uint64_t bytes, const char* what) const {
    Region* region = memory_.find(address);
    if (!region)
        throw SimulationFault("outside", actor.fault_actor(),
                              fmt::format("{} of {} bytes outside of all memory it was given", what, bytes));
    if (region->offset_of(address) + bytes > region->bytes)
        throw SimulationFault("outside", actor.fault_actor(),
                              fmt::format("{} of {} bytes runs over the end of {}, which has {} bytes", what, bytes,
                                          region->place(region->offset_of(address)), region->bytes));
    return *region;
}

void OrderModel::access(SimActor& actor, Lane lane, Proxy proxy, Access access, const AccessRange& range,
                        const Epoch& tag, const char* what) {
    if (range.rows == 0 || range.row_bytes == 0) return;
    const std::uint64_t span = (range.rows - 1) * range.pitch + range.row_bytes;
    Region& region = region_of(actor, range.address, span, what);
    const std::uint64_t start = region.offset_of(range.address);
    check_place(actor, proxy, access, region, start, what);
    if (!enabled_ || region.kind == MemoryKind::Input) return;
    const ProxyKnowledge& known = lane_of(actor, lane).known;
    auto on_run = [&](const ShadowRun& run, std::uint64_t offset) {
        check(actor, known, proxy, access, region, run, offset, what);
    };
    const bool dense = range.pitch == range.row_bytes;
    const std::uint64_t rows = dense ? 1 : range.rows, bytes = dense ? span : range.row_bytes;
    for (std::uint64_t row = 0; row < rows; ++row) {
        if (access == Access::Read)
            region.shadow.read(start + row * range.pitch, bytes, tag, on_run);
        else
            region.shadow.write(start + row * range.pitch, bytes, tag, on_run);
    }
}

void OrderModel::check_place(const SimActor& actor, Proxy proxy, Access access, const Region& region,
                             std::uint64_t offset, const char* what) const {
    const bool network = actor.cta < 0;
    const bool remote = region.node >= 0 && region.node != actor.node;
    auto fail = [&](const char* fault, const char* why) {
        throw SimulationFault(fault, actor.fault_actor(), fmt::format("{} at {}: {}", what, region.place(offset), why));
    };
    if (region.kind == MemoryKind::Input && access == Access::Write) fail("write_input", "an input may not be written");
    // A bulk copy may write to all CTAs of its cluster.
    const bool multicast = proxy == Proxy::Async && access == Access::Write && region.cluster == actor.cluster;
    if (region.kind == MemoryKind::Shared && (region.rank != actor.rank || (region.cta != actor.cta && !multicast)))
        fail("outside", "shared memory of another CTA");
    const bool tensor = region.kind == MemoryKind::Input || region.kind == MemoryKind::Output;
    if (tensor && region.rank >= 0 && region.rank != actor.rank) fail("outside", "a tensor of another rank");
    if (remote && !network) fail("outside", "memory of another node is reached through the FIFO only");
    if (tensor && network) fail("outside", "a NIC reaches the workspace only");
}

void OrderModel::check(const SimActor& actor, const ProxyKnowledge& known, Proxy proxy, Access access,
                       const Region& region, const ShadowRun& run, std::uint64_t offset, const char* what) const {
    const Knowledge& own = proxy == Proxy::Async ? known.async : known.generic;
    if (!run.write.none() && !own.covers(run.write)) {
        const bool fence = proxy == Proxy::Async && known.generic.covers(run.write);
        throw SimulationFault(access == Access::Read ? "read_unordered" : "write_unordered", actor.fault_actor(),
                              fmt::format("{} at {} ({}) is not ordered after the write by {}", what,
                                          region.place(offset), proxy_word(proxy), describe(run.write, region)),
                              fence ? "a proxy fence is missing between what was acquired and this operation"
                                    : "a completion wait, a release or an acquire of sufficient scope is missing");
    }
    if (access == Access::Read) {
        if (run.written) return;
        throw SimulationFault("uninitialised", actor.fault_actor(),
                              fmt::format("{} at {} reads bytes that nobody wrote", what, region.place(offset)));
    }
    Epoch open;
    const bool bad = run.reads.any([&](const Epoch& read) {
        if (known.generic.covers(read) || known.async.covers(read)) return false;
        open = read;
        return true;
    });
    if (bad)
        throw SimulationFault(
            "overwrite_unordered", actor.fault_actor(),
            fmt::format("{} at {} ({}) is not ordered after the read by {}", what, region.place(offset),
                        proxy_word(proxy), describe(open, region)),
            "the reader has to hand the memory back: a wait for its reads, then a release that this side acquires");
}

std::string OrderModel::describe(const Epoch& epoch, const Region& region) const {
    if (epoch.component & kLocalComponent) {
        const std::uint32_t index = epoch.component & ~kLocalComponent;
        return index < region.local_components->size() ? (*region.local_components)[index] : "an operation of this CTA";
    }
    return components_[epoch.component];
}

}  // namespace plait
