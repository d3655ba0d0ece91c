// The simulator's engine: implements templates/abi/host_engine.h for every agent of every rank of a cluster in one
// process and one thread. One fiber per agent; every call is a possible switch point; the seed decides everything.
//
// An Engine lives as long as its cluster: clocks, shadow memory and words outlive a launch, and so do transfers that
// are still on the network. A run that throws leaves the engine dead.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/artifact/host_module.h"
#include "runtime/sim/order.h"
#include "runtime/sim/report.h"
#include "runtime/sim/scheduler.h"
#include "runtime/sim/traffic.h"
#include "templates/abi/kernel_args.h"

namespace plait {

class Engine;
struct SimCta;

// Groups of asynchronous operations of one agent that complete in order: bulk stores, matrix operations, row gathers.
struct AsyncGroups {
    struct Group {
        std::uint32_t operations = 0, unread = 0, unwritten = 0;
    };
    std::vector<Group> groups{1};  // the last one is open
    Epoch reads, writes;           // component, and its time before this launch; made when first used
    std::uint32_t waited_reads = 0, waited_writes = 0;
    std::uint32_t committed() const { return static_cast<std::uint32_t>(groups.size() - 1); }
};

// An accumulator or a register operand.
struct RegisterTile {
    const void* address = nullptr;
    std::uint32_t group = 0;  // of the youngest operation that uses it, counted from 1; 0: a wait has named it since
    bool fenced = false;      // mma_begin named it since anything else touched it
    bool behind_fence = false;  // mma_begin of any accumulator since then
    bool operand = false;     // read by operations, not written
};

struct RegisterMemory {
    std::uint32_t slot = 0;
    std::uint64_t bytes = 0;
    std::unique_ptr<std::uint8_t[]> storage;
};

struct SimAgent : Task, SimActor {
    Engine* engine = nullptr;
    SimCta* cta_state = nullptr;
    std::uint32_t index = 0;
    HostCta view{};
    AsyncGroups bulk, matrix, gather;
    Epoch loads;  // bulk loads' reads of global memory, counted
    std::vector<RegisterTile> tiles;
    std::vector<RegisterMemory> registers;
    std::uint64_t seen_changes = 0;  // of its rank's words, when idle() last returned
    // What it is parked on, for waking and for the report.
    enum class Parked { No, Words, Barrier, Bulk, CtaBarrier, ClusterBarrier, Turn, Idle, Lost } parked = Parked::No;
    const u64* words = nullptr;
    std::uint64_t word_count = 0, word_value = 0;
    std::uint64_t deadline_ns = kNoDeadline;
    std::uint32_t site = 0, pending = 0, parity = 0, turn = 0;
    bool read_only = false;
    const void* barrier = nullptr;
};

struct SimBarrier {
    const void* address = nullptr;
    std::uint32_t arrivals = 0, pending = 0, phase = 0, local_component = 0;
    std::int64_t bytes = 0;  // expected and not yet come
    Epoch init;
    ProxyKnowledge arriving, completed;
    std::vector<SimAgent*> waiters;
};

// A thread block cluster: its CTAs start together.
struct CtaCluster {
    std::vector<SimCta*> ctas;
    std::uint32_t met = 0, meetings = 0;  // agents at cluster_barrier now; how often all met
    std::shared_ptr<std::vector<std::string>> local_components;
};

struct SimCta {
    int rank = 0;
    std::uint32_t cta = 0;
    CtaCluster* cluster = nullptr;
    std::uint8_t* shared = nullptr;
    std::unique_ptr<std::uint8_t[]> storage;
    Region* region = nullptr;
    std::vector<std::unique_ptr<SimAgent>> agents;
    std::deque<SimBarrier> barriers;      // a barrier's word in shared memory holds its index
    std::uint32_t met = 0, meetings = 0;  // agents at cta_barrier now; how often all met
    std::vector<bool> turns;              // by number: passed and not taken
    std::uint32_t finished = 0, loads_in_flight = 0;
    bool started = false;
};

// What a rank's kernels and its host share, for the life of the cluster.
struct SimRank {
    int node = 0;
    std::uint8_t* workspace = nullptr;
    DeviceState* state = nullptr;
    std::uint64_t changes = 0;        // of words in its memory
    std::vector<SimAgent*> watchers;  // agents parked on words of its memory, or idle
    Knowledge boundary;               // end of its last launch: the next one starts after it
    std::uint32_t running = 0;        // CTAs
};

struct EngineLaunch {
    HostKernel kernel = nullptr;
    std::vector<const void*> args;  // by rank
    std::vector<std::string> agents;
    std::vector<WaitSite> sites;
    std::uint64_t shared_bytes = 0;
    std::uint32_t ctas = 1, resident = 1;  // of each rank
    std::uint32_t cluster = 1;             // CTAs of a cluster
};

// A bulk copy under way. A store reads its source at one time and writes its destination at a later one.
struct BulkOperation {
    SimAgent* agent = nullptr;
    BulkCopy copy{};
    SimBarrier* barrier = nullptr;  // loads
    SimCta* target = nullptr;       // of a load: whose shared memory it writes
    std::uint32_t phase = 0, group = 0;
    Epoch load;
    std::vector<std::uint8_t> held;  // a store's bytes between the two
    bool read = false;
};

// Told when host-visible words change (FIFO, host lines).
class HostListener {
public:
    virtual ~HostListener() = default;
    virtual void host_word_changed(int rank) = 0;
    virtual std::string describe_host(int rank) const = 0;
};

class Engine : public EventSource {
public:
    Engine(int world, int ranks_per_node, const SimOptions& options);
    ~Engine() override;

    SimMemory& memory() { return memory_; }
    OrderModel& order() { return order_; }
    Random& random() { return random_; }
    Scheduler& scheduler() { return scheduler_; }
    Traffic& traffic() { return traffic_; }
    SimRank& rank(int r) { return ranks_[r]; }
    int world() const { return static_cast<int>(ranks_.size()); }
    int ranks_per_node() const { return ranks_per_node_; }

    // Runs one launch on all ranks to its end; fills steps and events. SimulationFault, StallError.
    LaunchReport run(const EngineLaunch& launch);
    bool dead() const { return dead_; }
    bool lost(int rank) const {
        return rank == options_.lost.rank && !lost_returned_ && steps_ >= options_.lost.after_steps;
    }

    // A word in `region` changed: whoever waits on words of its rank looks again.
    void word_changed(const Region& region, const void* word);
    // Host side: a proxy of `rank` may have something to do.
    void set_host_listener(HostListener* listener) { listener_ = listener; }

    // HostEngine, one method per entry.
    void access(SimAgent&, Lane, Proxy, Access, const AccessRange&);
    u64 constant_bytes(SimAgent&, const void* address);
    void barrier_init(SimAgent&, void* barrier, u32 arrivals);
    void barrier_arrive(SimAgent&, Lane, void* barrier, u32 count, u64 bytes);
    void barrier_wait(SimAgent&, Lane, void* barrier, u32 parity);
    void bulk_load(SimAgent&, Lane, const BulkCopy&, void* barrier);
    void bulk_store(SimAgent&, Lane, const BulkCopy&);
    void bulk_commit(SimAgent&);
    void bulk_wait(SimAgent&, Lane, u32 pending, bool read_only);
    void fence_proxy_async(SimAgent&, Lane);
    void agent_sync(SimAgent&);
    void cta_barrier(SimAgent&);
    void cluster_barrier(SimAgent&);
    void cluster_arrive(SimAgent&, Lane, void* barrier, u32 cta);
    void bulk_multicast(SimAgent&, Lane, const BulkCopy&, void* barrier, u32 ctas);
    void mma_begin(SimAgent&, const void* accumulator);
    void mma_read(SimAgent&, const AccessRange&);
    void mma_write(SimAgent&, const void* accumulator);
    void mma_operand(SimAgent&, const void* operand);
    void mma_commit(SimAgent&);
    void mma_wait(SimAgent&, u32 pending, std::span<const void* const> named);
    void touch(SimAgent&, const void* tile);
    void turn_wait(SimAgent&, u32 turn);
    void turn_pass(SimAgent&, u32 turn);
    void signal(SimAgent&, Lane, u64* address, u64 value, Update, Scope, Order);
    u64 load(SimAgent&, Lane, const u64* address, Scope, Order);
    u64 fetch_add(SimAgent&, Lane, u64* address, u64 value, Scope, Order);
    WaitResult wait(SimAgent&, Lane, const u64* first, u64 count, u64 value, Scope, Order, u32 site, u64 deadline_ns);
    void idle(SimAgent&, u64 deadline_ns);
    u64 clock() const { return now_ns_; }
    void trace(SimAgent&, u32 kind, i64 value);
    void* registers(SimAgent&, u64 bytes, u32 slot);
    void gather_row(SimAgent&, u8* destination, const u8* source, u64 bytes, u64 row_bytes);
    void gather_commit(SimAgent&);
    void gather_wait(SimAgent&, u32 pending);

    void point(SimAgent& agent);      // counts a step; maybe another agent runs first
    void run_agent(SimAgent& agent);  // the fiber's body

    // EventSource: bulk copies
    std::uint64_t pending() const override { return copies_.size(); }
    void run_one(Random& random) override;

private:
    void start_ctas();
    void start_cta(SimCta& cta);
    void end_agent(SimAgent& agent);
    void end_cta(SimCta& cta);
    void begin_launch(const EngineLaunch& launch);
    void check_puts_complete(int rank);
    void end_launch();
    void drop_launch();
    Epoch stream_epoch(const SimAgent& agent, const char* what);
    std::uint32_t local_component(SimCta& cta, std::string what);

    SimBarrier& barrier_at(SimAgent& agent, SimCta& cta, const void* address, const char* what);
    void publish_barriers(const CtaCluster& cluster, const std::vector<SimAgent*>& members);
    SimCta& peer_of(SimAgent& agent, u32 cta, const char* what);
    u8* place_in(SimAgent& agent, SimCta& peer, const void* address, const char* what);
    void arrive(SimAgent& agent, SimCta& cta, SimBarrier& barrier, u32 count, u64 bytes);
    void issue_load(SimAgent& agent, Lane lane, const BulkCopy& copy, SimCta& cta, SimBarrier& barrier);
    void read_source(SimAgent& agent, Lane lane, const BulkCopy& copy);
    void complete_phase(SimBarrier& barrier);
    void execute_load(BulkOperation& operation);
    void wake_bulk(SimAgent& agent);
    bool bulk_done(const SimAgent& agent, u32 pending, bool read_only) const;
    Region& word_region(const SimActor& actor, const void* address, u64 count, const char* what) const;
    bool words_reached(const SimAgent& agent) const;
    bool aborted(const SimAgent& agent) const;
    RegisterTile& tile_of(SimAgent& agent, const void* address);
    std::string describe_stall() const;
    bool over() const;
    bool return_lost();
    bool pass_time();
    bool any_aborted() const;
    std::string describe_parked(const SimAgent& agent) const;

    SimOptions options_;
    int ranks_per_node_;
    Random random_;
    StackPool stacks_;
    SimMemory memory_;
    OrderModel order_;
    Scheduler scheduler_;
    Traffic traffic_;
    std::vector<SimRank> ranks_;
    const EngineLaunch* launch_ = nullptr;
    std::vector<std::unique_ptr<SimCta>> ctas_;  // by rank, then cta
    std::vector<std::unique_ptr<CtaCluster>> clusters_;  // likewise
    std::vector<std::unique_ptr<BulkOperation>> copies_;
    std::uint64_t unfinished_ctas_ = 0, steps_ = 0;
    std::uint64_t now_ns_ = 1;   // 0 means never in the words of a launch; moves only when nothing else can
    std::vector<SimAgent*> lost_agents_;
    std::uint64_t living_ctas_ = 0;  // unfinished, of ranks that are not to be lost
    bool lost_returned_ = false;
    std::string first_stall_;    // what was in the way when it first moved in this launch
    std::vector<TraceEvent> events_;
    HostListener* listener_ = nullptr;
    bool dead_ = false;
};

const HostEngine& sim_engine_table();

}  // namespace plait
