// The C table. Kernel code has no unwind tables: what an engine call throws is caught here, ends the launch, and the
// fiber never runs again. What only the simulator checks is nothing here.
#include <cstring>

#include "runtime/shm/worker.h"

namespace plait {
namespace {

template <class Call>
auto guarded(void* handle, Call call) -> decltype(call(*static_cast<ShmAgent*>(handle))) {
    ShmAgent& agent = *static_cast<ShmAgent*>(handle);
    std::exception_ptr failure;
    try {
        return call(agent);
    } catch (...) {
        failure = std::current_exception();
    }
    agent.worker->fail(agent, std::move(failure));
}

using A = ShmAgent;

void access(void*, Lane, Proxy, Access, const void*, u64, u64, u64) {}
u64 constant_bytes(void* a, const void* address) { return static_cast<A*>(a)->worker->constant_bytes(address); }
void barrier_init(void* a, void* barrier, u32 arrivals) {
    guarded(a, [&](A& g) { g.worker->barrier_init(g, barrier, arrivals); });
}
void barrier_arrive(void* a, Lane, void* barrier, u32 count, u64 bytes) {
    guarded(a, [&](A& g) { g.worker->barrier_arrive(g, barrier, count, bytes); });
}
void barrier_wait(void* a, Lane, void* barrier, u32 parity) {
    guarded(a, [&](A& g) { g.worker->barrier_wait(g, barrier, parity); });
}
void bulk_load(void* a, Lane, const BulkCopy* copy, void* barrier) {
    guarded(a, [&](A& g) { g.worker->bulk_load(g, *copy, barrier); });
}
void bulk_store(void* a, Lane, const BulkCopy* copy) { static_cast<A*>(a)->worker->bulk_store(*copy); }
void bulk_commit(void*, Lane) {}
void bulk_wait(void*, Lane, u32, u32) {}
void fence_proxy_async(void*, Lane) {}
void agent_sync(void*) {}
void cta_barrier(void* a) {
    guarded(a, [&](A& g) { g.worker->cta_barrier(g); });
}
void mma_begin(void*, const void*) {}
void mma_read(void*, const void*, u64, u64, u64) {}
void mma_write(void*, const void*) {}
void mma_commit(void*) {}
void mma_operand(void*, const void*) {}
void mma_wait(void*, u32, const void* const*, u32) {}
void touch(void*, const void*) {}
void turn_wait(void* a, u32 turn) {
    guarded(a, [&](A& g) { g.worker->turn_wait(g, turn); });
}
void turn_pass(void* a, u32 turn) {
    guarded(a, [&](A& g) { g.worker->turn_pass(g, turn); });
}
void signal(void* a, Lane, u64* address, u64 value, Update update, Scope, Order order) {
    static_cast<A*>(a)->worker->signal(address, value, update, order);
}
u64 load(void*, Lane, const u64* address, Scope, Order order) {
    return std::atomic_ref<u64>(*const_cast<u64*>(address))
        .load(order == Order::Ordered ? std::memory_order_acquire : std::memory_order_relaxed);
}
u64 fetch_add(void* a, Lane, u64* address, u64 value, Scope, Order order) {
    return static_cast<A*>(a)->worker->fetch_add(address, value, order);
}
WaitResult wait(void* a, Lane, const u64* first, u64 count, u64 value, Scope, Order, u32 site, u64 deadline_ns) {
    return guarded(a, [&](A& g) { return g.worker->wait(g, first, count, value, site, deadline_ns); });
}
void idle(void* a, u64) {
    guarded(a, [&](A& g) { g.worker->idle(g); });
}
u64 clock(void*) { return shm_clock_ns(); }
void trace(void*, u32, i64) {}
void* registers(void* a, u64 bytes, u32 slot) {
    return guarded(a, [&](A& g) { return g.worker->registers(g, bytes, slot); });
}
// Row gathers are copied at once.
void gather_row(void*, u8* destination, const u8* source, u64 bytes, u64 row_bytes) {
    std::memcpy(destination, source, bytes);
    std::memset(destination + bytes, 0, row_bytes - bytes);
}
void gather_commit(void*) {}
void gather_wait(void*, u32) {}
void cluster_barrier(void* a) {
    guarded(a, [&](A& g) { g.worker->cluster_barrier(g); });
}
void cluster_arrive(void* a, Lane, void* barrier, u32 cta) {
    guarded(a, [&](A& g) { g.worker->cluster_arrive(g, barrier, cta); });
}
void bulk_multicast(void* a, Lane, const BulkCopy* copy, void* barrier, u32 ctas) {
    guarded(a, [&](A& g) { g.worker->bulk_multicast(g, *copy, barrier, ctas); });
}

}  // namespace

const HostEngine& shm_engine_table() {
    static constexpr HostEngine table = {
        .abi_version = kAbiVersion,
        .access = access,
        .constant_bytes = constant_bytes,
        .barrier_init = barrier_init,
        .barrier_arrive = barrier_arrive,
        .barrier_wait = barrier_wait,
        .bulk_load = bulk_load,
        .bulk_store = bulk_store,
        .bulk_commit = bulk_commit,
        .bulk_wait = bulk_wait,
        .fence_proxy_async = fence_proxy_async,
        .agent_sync = agent_sync,
        .cta_barrier = cta_barrier,
        .mma_begin = mma_begin,
        .mma_read = mma_read,
        .mma_write = mma_write,
        .mma_operand = mma_operand,
        .mma_commit = mma_commit,
        .mma_wait = mma_wait,
        .touch = touch,
        .turn_wait = turn_wait,
        .turn_pass = turn_pass,
        .signal = signal,
        .load = load,
        .fetch_add = fetch_add,
        .wait = wait,
        .idle = idle,
        .clock = clock,
        .trace = trace,
        .registers = registers,
        .gather_row = gather_row,
        .gather_commit = gather_commit,
        .gather_wait = gather_wait,
        .cluster_barrier = cluster_barrier,
        .cluster_arrive = cluster_arrive,
        .bulk_multicast = bulk_multicast,
    };
    return table;
}

}  // namespace plait
