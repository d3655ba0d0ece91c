// ShmWorker: one thread of a launch and the clusters of CTAs dealt to it. Round robin over its agents; an agent that waits is looked
// at on every round and resumed once its wait is over. When a round moves nothing the thread yields, then naps: ranks
// may outnumber cores.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "runtime/shm/engine.h"
#include "templates/abi/host_engine.h"

namespace plait {

class ShmWorker;
struct ShmCta;

// An mbarrier. Its 8 bytes in shared memory hold a mark and its index in the CTA.
struct ShmBarrier {
    const void* address = nullptr;
    std::uint32_t arrivals = 0, pending = 0, phase = 0;
    std::int64_t bytes = 0;  // expected and not yet come
};

struct ShmAgent {
    using Clock = std::chrono::steady_clock;
    enum class Parked { No, Words, Barrier, CtaBarrier, ClusterBarrier, Turn, Idle };
    struct Registers {
        std::uint32_t slot = 0;
        std::uint64_t bytes = 0;
        std::unique_ptr<std::uint8_t[]> storage;
    };

    ShmWorker* worker = nullptr;
    ShmCta* cta = nullptr;
    Fiber fiber;
    HostCta view{};
    std::vector<Registers> registers;

    Parked parked = Parked::No;
    const u64* words = nullptr;  // of a wait: those before `reached` are there
    std::uint64_t count = 0, reached = 0, value = 0;
    std::uint32_t site = 0;
    WaitResult result = WaitResult::Reached;
    u64 deadline_ns = kNoDeadline;  // of a wait
    const ShmBarrier* barrier = nullptr;
    std::uint32_t parity = 0, meeting = 0, turn = 0;
};

// A thread block cluster; its CTAs belong to one thread.
struct ShmCluster {
    std::vector<ShmCta*> ctas;
    std::uint32_t met = 0, meetings = 0;
};

struct ShmCta {
    ShmCluster* cluster = nullptr;
    std::unique_ptr<std::uint8_t[]> storage;
    std::uint8_t* shared = nullptr;
    std::vector<std::unique_ptr<ShmAgent>> agents;
    std::deque<ShmBarrier> barriers;
    std::uint32_t met = 0, meetings = 0;
    std::vector<bool> turns;  // passed and not yet taken
};

class ShmWorker {
public:
    // Clusters index, index + step, ...
    ShmWorker(ShmLaunchState& state, StackPool& stacks, std::uint32_t index, std::uint32_t step);
    ~ShmWorker();  // drops what has not ended
    ShmWorker(const ShmWorker&) = delete;
    ShmWorker& operator=(const ShmWorker&) = delete;
    void run();
    void run_kernel(ShmAgent& agent);  // the fiber's body

    // HostEngine, what is more than a line of it.
    u64 constant_bytes(const void* address) const;
    void barrier_init(ShmAgent&, void* barrier, u32 arrivals);
    void barrier_arrive(ShmAgent&, void* barrier, u32 count, u64 bytes);
    void barrier_wait(ShmAgent&, void* barrier, u32 parity);
    void bulk_load(ShmAgent&, const BulkCopy&, void* barrier);
    void bulk_store(const BulkCopy&);
    void cta_barrier(ShmAgent&);
    void cluster_barrier(ShmAgent&);
    void cluster_arrive(ShmAgent&, void* barrier, u32 cta);
    void bulk_multicast(ShmAgent&, const BulkCopy&, void* barrier, u32 ctas);
    void turn_wait(ShmAgent&, u32 turn);
    void turn_pass(ShmAgent&, u32 turn);
    void signal(u64* address, u64 value, Update, Order);
    u64 fetch_add(u64* address, u64 value, Order);
    WaitResult wait(ShmAgent&, const u64* first, u64 count, u64 value, u32 site, u64 deadline_ns);
    void idle(ShmAgent&);
    void* registers(ShmAgent&, u64 bytes, u32 slot);
    // Called where an engine call threw: the launch ends with it, the fiber never runs again.
    [[noreturn]] void fail(ShmAgent&, std::exception_ptr failure);

private:
    void start(ShmCta& cta, std::uint32_t index);
    bool round();
    bool may_resume(ShmAgent& agent);
    bool words_reached(ShmAgent& agent) const;
    bool aborted() const;
    void park(ShmAgent& agent, ShmAgent::Parked how);
    ShmBarrier& barrier_at(ShmAgent& agent, ShmCta& cta, const void* address) const;
    void arrive(ShmAgent& agent, ShmBarrier& barrier, u32 count, u64 bytes);
    void load(const BulkCopy& copy, ShmBarrier& barrier);
    static void complete_phase(ShmBarrier& barrier);
    void check_movement();
    bool stuck(const ShmCluster& cluster);
    [[noreturn]] void nothing_moves(const std::string& what) const;
    std::string describe(const ShmCta& cta, const ShmAgent& agent) const;
    void back_off();

    ShmLaunchState& state_;
    const ShmLaunch& launch_;
    StackPool& stacks_;
    std::vector<std::unique_ptr<ShmCluster>> clusters_;
    std::vector<std::unique_ptr<ShmCta>> ctas_;
    std::uint64_t unfinished_ = 0;
    std::uint64_t moves_ = 0;  // by this thread
    std::uint64_t quiet_rounds_ = 0, seen_moves_ = 0;
    ShmAgent::Clock::time_point last_movement_;
    std::exception_ptr failure_;
};

u64 shm_clock_ns();  // CLOCK_MONOTONIC
const HostEngine& shm_engine_table();

}  // namespace plait
