// The memory-order model: who may rely on what. No scheduling, no data movement.
//
// Each (actor, lane) has two clocks, `generic` and `async` (templates/abi/host_engine.h). Rules, with their source:
//  - An ordinary read or write must find the last write in `generic`; a bulk or matrix access must find it in `async`.
//    A write must find the reads since then in either (an overwrite after a read needs no proxy fence).
//  - A word passes on the releaser's `generic` clock into the acquirer's `generic` clock, and only where each side's
//    scope includes the other (PTX ISA, morally strong). Never into `async`: between CTAs the proxy-preserved causality
//    order needs a proxy fence on the way (PTX ISA, "Causality order"), which the acquirer issues.
//  - Within a CTA (mbarriers, agent_sync, cta_barrier) both clocks pass on: same proxy, same thread block.
//  - A barrier of another CTA of the cluster is told what is over of asynchronous operations on the cluster's shared memory, and
//    nothing else: a remote arrive releases at .cta scope (PTX ISA, "mbarrier.arrive"). cluster_barrier tells of barriers alone.
//  - fence_proxy_async copies `generic` into `async`.
// Members of a warpgroup agent include the elected thread: what they acquire or fence, it has too, and what they
// release covers what it knows. What the elected thread alone did or learned, the others know after agent_sync.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/sim/clock.h"
#include "runtime/sim/fault.h"
#include "runtime/sim/memory.h"
#include "templates/abi/host_engine.h"

namespace plait {

struct SimLane {
    bool active = false;
    Epoch own;  // component and time of its ordinary accesses
    ProxyKnowledge known;
};

struct SimActor {
    int rank = 0, cta = -1;  // cta -1: the rank's proxy
    int cluster = -1;        // first CTA of its thread block cluster
    int node = 0;
    std::string name, role;
    SimLane lanes[2];               // Members, Elected
    std::uint32_t synced_time = 0;  // ordinary accesses of Members up to here are known to Elected
    FaultActor fault_actor() const { return {rank, cta, name, role}; }
};

// rows of row_bytes, pitch apart.
struct AccessRange {
    const void* address = nullptr;
    std::uint64_t row_bytes = 0, rows = 1, pitch = 0;
};

class OrderModel {
public:
    OrderModel(SimMemory& memory, bool enabled) : memory_(memory), enabled_(enabled) {}
    bool enabled() const { return enabled_; }
    void disable() { enabled_ = false; }  // after an abort: what is read then is nobody's result

    std::uint32_t component(const std::string& what);  // the same name is the same component, over launches too
    void start(SimActor& actor, std::uint32_t component, const Knowledge& from);

    // Checks the range and records `tag` in it: the lane's own epoch, or that of a bulk or matrix operation.
    void access(SimActor& actor, Lane lane, Proxy proxy, Access access, const AccessRange& range, const Epoch& tag,
                const char* what);
    Epoch own_epoch(SimActor& actor, Lane lane) { return lane_of(actor, lane).own; }
    SimLane& lane_of(SimActor& actor, Lane lane);

    void fence_proxy_async(SimActor& actor, Lane lane);
    void agent_sync(SimActor& actor);
    void release(SimActor& actor, Lane lane, ProxyKnowledge& into);  // barriers
    void release_local(SimActor& actor, Lane lane, ProxyKnowledge& into);  // barriers of another CTA
    void acquire(SimActor& actor, Lane lane, const ProxyKnowledge& from);
    void learn(SimActor& actor, Lane lane, const Epoch& epoch);  // into both clocks
    void learn_ordinary(SimActor& actor, const Epoch& epoch);    // into the members' generic clock
    void meet(const std::vector<SimActor*>& actors);             // cta_barrier

    // Words. relaxed: the value changes, what a release left there goes (Set) or stays (Add: a release sequence).
    void release_word(SimActor& actor, Lane lane, const void* word, Update update, Scope scope);
    void release_word(int rank, const Clock& clock, const void* word);  // a NIC, System scope, Set
    void relaxed_word(const void* word, Update update);
    void acquire_word(SimActor& actor, Lane lane, const void* word, Scope scope);

    Region& region_of(const SimActor& actor, const void* address, std::uint64_t bytes, const char* what) const;

private:
    struct Release {
        Scope scope;
        int rank, cta;
        Clock clock;
    };
    void check(const SimActor& actor, const ProxyKnowledge& known, Proxy proxy, Access access, const Region& region,
               const ShadowRun& run, std::uint64_t offset, const char* what) const;
    void check_place(const SimActor& actor, Proxy proxy, Access access, const Region& region, std::uint64_t offset,
                     const char* what) const;
    std::string describe(const Epoch& epoch, const Region& region) const;
    void advance(SimLane& lane);
    template <class Apply>
    void each_lane(SimActor& actor, Lane lane, Apply apply);

    SimMemory& memory_;
    bool enabled_;
    std::vector<std::string> components_;
    std::unordered_map<std::string, std::uint32_t> component_names_;
    std::unordered_map<const void*, std::vector<Release>> words_;
};

}  // namespace plait
