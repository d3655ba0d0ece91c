// The C table. Kernel code has no unwind tables: what an engine call throws is caught here, kept for the scheduler, and
// the fiber never runs again.
#include "runtime/sim/engine.h"

namespace plait {
namespace {

SimAgent& agent_of(void* agent) { return *static_cast<SimAgent*>(agent); }

template <class Call>
auto guarded(void* handle, Call call) -> decltype(call(agent_of(handle))) {
    SimAgent& agent = agent_of(handle);
    std::exception_ptr failure;
    try {
        return call(agent);
    } catch (...) {
        failure = std::current_exception();
    }
    agent.engine->scheduler().fail(agent, std::move(failure));
}

using A = SimAgent;

void access(void* a, Lane lane, Proxy proxy, Access kind, const void* address, u64 row_bytes, u64 rows, u64 pitch) {
    guarded(a, [&](A& g) { g.engine->access(g, lane, proxy, kind, {address, row_bytes, rows, pitch}); });
}
u64 constant_bytes(void* a, const void* address) {
    return guarded(a, [&](A& g) { return g.engine->constant_bytes(g, address); });
}
void barrier_init(void* a, void* barrier, u32 arrivals) {
    guarded(a, [&](A& g) { g.engine->barrier_init(g, barrier, arrivals); });
}
void barrier_arrive(void* a, Lane lane, void* barrier, u32 count, u64 bytes) {
    guarded(a, [&](A& g) { g.engine->barrier_arrive(g, lane, barrier, count, bytes); });
}
void barrier_wait(void* a, Lane lane, void* barrier, u32 parity) {
    guarded(a, [&](A& g) { g.engine->barrier_wait(g, lane, barrier, parity); });
}
void bulk_load(void* a, Lane lane, const BulkCopy* copy, void* barrier) {
    guarded(a, [&](A& g) { g.engine->bulk_load(g, lane, *copy, barrier); });
}
void bulk_store(void* a, Lane lane, const BulkCopy* copy) {
    guarded(a, [&](A& g) { g.engine->bulk_store(g, lane, *copy); });
}
void bulk_commit(void* a, Lane) {
    guarded(a, [&](A& g) { g.engine->bulk_commit(g); });
}
void bulk_wait(void* a, Lane lane, u32 pending, u32 read_only) {
    guarded(a, [&](A& g) { g.engine->bulk_wait(g, lane, pending, read_only != 0); });
}
void fence_proxy_async(void* a, Lane lane) {
    guarded(a, [&](A& g) { g.engine->fence_proxy_async(g, lane); });
}
void agent_sync(void* a) {
    guarded(a, [&](A& g) { g.engine->agent_sync(g); });
}
void cta_barrier(void* a) {
    guarded(a, [&](A& g) { g.engine->cta_barrier(g); });
}
void mma_begin(void* a, const void* accumulator) {
    guarded(a, [&](A& g) { g.engine->mma_begin(g, accumulator); });
}
void mma_read(void* a, const void* address, u64 row_bytes, u64 rows, u64 pitch) {
    guarded(a, [&](A& g) { g.engine->mma_read(g, {address, row_bytes, rows, pitch}); });
}
void mma_write(void* a, const void* accumulator) {
    guarded(a, [&](A& g) { g.engine->mma_write(g, accumulator); });
}
void mma_operand(void* a, const void* operand) {
    guarded(a, [&](A& g) { g.engine->mma_operand(g, operand); });
}
void mma_commit(void* a) {
    guarded(a, [&](A& g) { g.engine->mma_commit(g); });
}
void mma_wait(void* a, u32 pending, const void* const* named, u32 count) {
    guarded(a, [&](A& g) { g.engine->mma_wait(g, pending, {named, count}); });
}
void touch(void* a, const void* tile) {
    guarded(a, [&](A& g) { g.engine->touch(g, tile); });
}
void turn_wait(void* a, u32 turn) {
    guarded(a, [&](A& g) { g.engine->turn_wait(g, turn); });
}
void turn_pass(void* a, u32 turn) {
    guarded(a, [&](A& g) { g.engine->turn_pass(g, turn); });
}
void signal(void* a, Lane lane, u64* address, u64 value, Update update, Scope scope, Order order) {
    guarded(a, [&](A& g) { g.engine->signal(g, lane, address, value, update, scope, order); });
}
u64 load(void* a, Lane lane, const u64* address, Scope scope, Order order) {
    return guarded(a, [&](A& g) { return g.engine->load(g, lane, address, scope, order); });
}
u64 fetch_add(void* a, Lane lane, u64* address, u64 value, Scope scope, Order order) {
    return guarded(a, [&](A& g) { return g.engine->fetch_add(g, lane, address, value, scope, order); });
}
WaitResult wait(void* a, Lane lane, const u64* first, u64 count, u64 value, Scope scope, Order order, u32 site,
                u64 deadline_ns) {
    return guarded(a, [&](A& g) { return g.engine->wait(g, lane, first, count, value, scope, order, site, deadline_ns); });
}
void idle(void* a, u64 deadline_ns) {
    guarded(a, [&](A& g) { g.engine->idle(g, deadline_ns); });
}
u64 clock(void* a) {
    return guarded(a, [](A& g) { return g.engine->clock(); });
}
void trace(void* a, u32 kind, i64 value) {
    guarded(a, [&](A& g) { g.engine->trace(g, kind, value); });
}
void* registers(void* a, u64 bytes, u32 slot) {
    return guarded(a, [&](A& g) { return g.engine->registers(g, bytes, slot); });
}
void gather_row(void* a, u8* destination, const u8* source, u64 bytes, u64 row_bytes) {
    guarded(a, [&](A& g) { g.engine->gather_row(g, destination, source, bytes, row_bytes); });
}
void gather_commit(void* a) {
    guarded(a, [&](A& g) { g.engine->gather_commit(g); });
}
void gather_wait(void* a, u32 pending) {
    guarded(a, [&](A& g) { g.engine->gather_wait(g, pending); });
}
void cluster_barrier(void* a) {
    guarded(a, [&](A& g) { g.engine->cluster_barrier(g); });
}
void cluster_arrive(void* a, Lane lane, void* barrier, u32 cta) {
    guarded(a, [&](A& g) { g.engine->cluster_arrive(g, lane, barrier, cta); });
}
void bulk_multicast(void* a, Lane lane, const BulkCopy* copy, void* barrier, u32 ctas) {
    guarded(a, [&](A& g) { g.engine->bulk_multicast(g, lane, *copy, barrier, ctas); });
}

}  // namespace

const HostEngine& sim_engine_table() {
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
