// The agent: one fiber of the engine. A one-thread agent has one lane; of a warpgroup agent the elected thread issues
// bulk operations and signals, and the engine keeps apart what it knows and what the members know.
#pragma once
#include "../abi/host_engine.h"
#include "../abi/kernel_args.h"

#define PLAIT_AGENT static

namespace plait {

// The words of runtime/trace/trace_kind.h.
enum class TraceKind : u32 {
    Idle = 0,
    Wait = 1,
    Load = 2,
    Compute = 3,
    Store = 4,
    Push = 5,
    Send = 6,
    Relay = 7,
    Arrived = 8
};

struct Agent {
    i64 cta, ctas;
    void* handle;  // first argument of every engine call
    const HostEngine* engine;
    Lane elected;  // who issues and signals: Members of a one-thread agent
    bool stopped;  // a wait gave up: this agent signals no more, since a flag implies data
    u32 register_slots;        // a bit for each that holds a register tile
    const u8* constant_first;  // bytes known to be constant for the launch: loads of them need no check each
    const u8* constant_end;
    i32 work;        // tile or chunk that it is at, for a stall's record; -1: none
    u64 idle_until;  // when relay_idle comes back at the latest
    u32 warpgroup;   // the entry sets it where a program asks for it
};

static inline Agent make_agent(const HostCta& cta, bool thread) {
    return Agent{cta.cta, cta.ctas, cta.agent, cta.engine, thread ? Lane::Members : Lane::Elected,
                 false,   0,        nullptr,   nullptr,    -1, kNoDeadline, 0};
}

template <int Count>
void registers_producer() {}
template <int Count>
void registers_consumer() {}

static inline void cta_barrier(Agent& ag) { ag.engine->cta_barrier(ag.handle); }
static inline void cluster_barrier(Agent& ag) { ag.engine->cluster_barrier(ag.handle); }
static inline void agent_sync(Agent& ag) { ag.engine->agent_sync(ag.handle); }
static inline void trace(Agent& ag, TraceKind kind, i64 value) {
    ag.work = kind == TraceKind::Idle ? -1 : static_cast<i32>(value);
    ag.engine->trace(ag.handle, static_cast<u32>(kind), value);
}

// An ordinary access of `bytes` consecutive bytes.
static inline void declare_access(Agent& ag, Access access, const void* address, u64 bytes) {
    ag.engine->access(ag.handle, Lane::Members, Proxy::Generic, access, address, bytes, 1, bytes);
}

}  // namespace plait
