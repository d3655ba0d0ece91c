// The C table through which generated host code reaches its engine. runtime/sim fills it (deterministic simulation,
// every access checked), and runtime/shm (real processes, nothing checked). templates/host is the only caller.
//
// An agent is a fiber. Inside a warpgroup agent two lanes are told apart, because sm90 tells them apart: `Members`
// (all 128 threads) and `Elected` (the one that issues bulk operations). A one-thread agent has one lane, either name.
// Each (agent, lane) has two clocks: what its ordinary accesses may rely on (Generic proxy) and what its bulk copies
// and matrix operations may rely on (Async proxy). PTX ISA, "Memory Consistency Model" and "Async proxy".
#pragma once
#include "flag.h"

namespace plait {

enum class Lane : u32 { Members = 0, Elected = 1 };
enum class Proxy : u32 { Generic = 0, Async = 1 };
enum class Access : u32 { Read = 0, Write = 1 };
enum class Order : u32 { Relaxed = 0, Ordered = 1 };   // Ordered: release on a store, acquire on a load
enum class Update : u32 { Set = 0, Add = 1 };
enum class WaitResult : u32 { Reached = 0, Aborted = 1, Expired = 2 };
inline constexpr u64 kNoDeadline = ~0ull;

// Rows of bytes, `rows` of them, clipped already; the zero-filled remainder of the box is described by the full sizes.
struct BulkCopy {
    u8* destination;
    const u8* source;
    u64 destination_pitch, source_pitch;
    u64 row_bytes, rows;               // what is copied
    u64 box_row_bytes, box_rows;       // what is written: the rest is zero (loads); equal to the above for stores
};

struct HostEngine {
    u32 abi_version;

    // Declares an ordinary access; faults where it is not ordered after what it conflicts with.
    void (*access)(void* agent, Lane, Proxy, Access, const void* address, u64 row_bytes, u64 rows, u64 pitch);

    // How many bytes from `address` on stay as they are for the whole launch (a caller's input): reads of them need no
    // further check. 0 for anything else.
    u64 (*constant_bytes)(void* agent, const void* address);

    // mbarriers in shared memory (one 8-byte word each, opaque). A phase completes when `arrivals` have arrived and
    // the bytes expected have come. arrive with expect_bytes > 0 is arrive.expect_tx.
    void (*barrier_init)(void* agent, void* barrier, u32 arrivals);
    void (*barrier_arrive)(void* agent, Lane, void* barrier, u32 count, u64 expect_bytes);
    void (*barrier_wait)(void* agent, Lane, void* barrier, u32 parity);

    // Bulk copies. They read and write in the async proxy at a time of the engine's choosing: a load is complete when
    // `barrier` has counted box_row_bytes * box_rows, a store when its bulk group has been waited for.
    void (*bulk_load)(void* agent, Lane, const BulkCopy*, void* barrier);
    void (*bulk_store)(void* agent, Lane, const BulkCopy*);
    void (*bulk_commit)(void* agent, Lane);
    void (*bulk_wait)(void* agent, Lane, u32 pending, u32 read_only);   // read_only: sources may be overwritten, no more

    // fence.proxy.async: what this lane's ordinary accesses may rely on, its bulk operations may rely on as well.
    void (*fence_proxy_async)(void* agent, Lane);
    // All threads of the agent meet (bar.sync among a warpgroup): both lanes know what either knew.
    void (*agent_sync)(void* agent);
    // All agents of the CTA meet.
    void (*cta_barrier)(void* agent);

    // Matrix operations read shared memory in the async proxy until their group has been waited for. A register tile,
    // accumulator or register operand, is named by any address: touching it while a group that uses it is in flight
    // faults, also after a wait that did not name it.
    // mma_begin is wgmma.fence: without it since the accumulator, or the operand, was last touched or waited for,
    // mma_write and mma_operand fault.
    void (*mma_begin)(void* agent, const void* accumulator);
    void (*mma_read)(void* agent, const void* address, u64 row_bytes, u64 rows, u64 pitch);
    void (*mma_write)(void* agent, const void* accumulator);
    void (*mma_operand)(void* agent, const void* operand);
    void (*mma_commit)(void* agent);
    void (*mma_wait)(void* agent, u32 pending, const void* const* named, u32 count);
    void (*touch)(void* agent, const void* tile);

    // Turns of the CTA's warpgroups: a wait takes one pass of the same number. No order of memory.
    void (*turn_wait)(void* agent, u32 turn);
    void (*turn_pass)(void* agent, u32 turn);

    // Words shared between agents, ranks and proxies.
    void (*signal)(void* agent, Lane, u64* address, u64 value, Update, Scope, Order);
    u64 (*load)(void* agent, Lane, const u64* address, Scope, Order);
    u64 (*fetch_add)(void* agent, Lane, u64* address, u64 value, Scope, Order);
    // Until all of `count` words from `first` on are >= value, this rank's DeviceState::abort is not 0, or the clock has
    // reached deadline_ns. Records and raises nothing: templates/launch_watch.h does.
    WaitResult (*wait)(void* agent, Lane, const u64* first, u64 count, u64 value, Scope, Order, u32 site, u64 deadline_ns);

    // Nothing to do until another agent acts: parks a polling loop (the relay's) until any word of memory changes, or the
    // clock has reached deadline_ns.
    void (*idle)(void* agent, u64 deadline_ns);
    // Nanoseconds, never backwards, the same for all agents of a rank.
    u64 (*clock)(void* agent);

    // A span of the timeline: `kind` as in runtime/trace, `value` what it concerns (a tile, a chunk).
    void (*trace)(void* agent, u32 kind, i64 value);
    // Per-agent memory for register tiles; stays valid until the agent ends.
    void* (*registers)(void* agent, u64 bytes, u32 slot);

    // Row gathers (cp.async): ordinary copies whose reads and writes are complete for their threads when their group has
    // been waited for. One row: `bytes` are copied, the rest of row_bytes is zero.
    void (*gather_row)(void* agent, u8* destination, const u8* source, u64 bytes, u64 row_bytes);
    void (*gather_commit)(void* agent);
    void (*gather_wait)(void* agent, u32 pending);

    // Clusters: CTAs that start together and reach each other's shared memory. All agents of all of them meet and know of the
    // barriers that were initialised and fenced before, of nothing else.
    void (*cluster_barrier)(void* agent);
    // One arrival at the barrier in the same place of CTA `cta` of the cluster. It tells another CTA only that asynchronous
    // operations which this lane has waited for are over.
    void (*cluster_arrive)(void* agent, Lane, void* barrier, u32 cta);
    // A bulk load into the same place of each CTA of the cluster whose bit is set in `ctas`, counted on the barrier in the same
    // place of each, at times of the engine's choosing.
    void (*bulk_multicast)(void* agent, Lane, const BulkCopy*, void* barrier, u32 ctas);
};

// What the runtime calls. `agent_index` counts the agents of a CTA as the manifest lists them.
struct HostCta {
    u32 cta, ctas;
    u32 agent_index;
    void* shared;         // zeroed, 1024-byte aligned
    void* agent;          // first argument of every HostEngine call
    const HostEngine* engine;
};
using HostKernel = void (*)(const HostCta*, const void* args);   // symbol `plait_kernel`

}  // namespace plait
