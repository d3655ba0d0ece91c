// The relay: a thread agent of CTA 0, the only poller of HostLines. It forwards into this rank's memory: abort,
// fifo_completed, and the flags of arrivals; and it watches over the launch (../launch_watch.h).
#pragma once
#include "launch.h"

namespace plait {

struct Relay {
    u64 taken;      // arrivals forwarded, over the Session's life
    u64 posted;     // arrivals seen
    u64 completed;  // fifo_completed seen
    u64 abort = 0;  // host's abort seen
    u64 forwarded_completed, forwarded_taken;
    i64 finished = 0;  // agents that are done, as of the last poll; 0 while ranks are still to enter
    LaunchWatch watch;

    // Words that only this rank's relays write: its own earlier launches.
    template <class Args>
    explicit Relay(const Args& args)
        : taken(args.launch.state->arrivals_taken),
          posted(taken),
          completed(args.launch.state->fifo_completed),
          forwarded_completed(completed),
          forwarded_taken(taken),
          workspace_(args.launch.workspace[args.launch.local_rank]),
          arrivals_(args.launch.arrivals),
          mask_(args.launch.arrival_slots - 1) {}

    bool has_arrival() const { return taken != posted; }
    // Of the oldest arrival not taken.
    template <class Args>
    Flag* arrival_flag(const Args&) const {
        return reinterpret_cast<Flag*>(workspace_ + read_arrival().signal_offset);
    }
    // Never less than what the flag holds: an unordered network may deliver epoch e after e + 1, and flags only grow.
    // The relay is the only writer of such a flag, so a look before the store is enough.
    u64 arrival_value() const {
        const Arrival& arrival = read_arrival();
        const u64 held = *reinterpret_cast<const u64*>(workspace_ + arrival.signal_offset);
        return held > arrival.signal_value ? held : arrival.signal_value;
    }

    Agent* agent = nullptr;  // the poller

private:
    const Arrival& read_arrival() const {
        const Arrival& arrival = arrivals_[taken & mask_];
        declare_access(*agent, Access::Read, &arrival, sizeof(arrival));
        return arrival;
    }

    u8* workspace_;
    const Arrival* arrivals_;
    u64 mask_;
};

template <class Args>
void relay_poll(Agent& ag, const Args& args, Relay& r) {
    const HostLines* host = args.launch.host;
    r.agent = &ag;
    r.abort = ag.engine->load(ag.handle, Lane::Members, &host->abort, Scope::System, Order::Ordered);
    r.completed = ag.engine->load(ag.handle, Lane::Members, &host->fifo_completed, Scope::System, Order::Ordered);
    r.posted = ag.engine->load(ag.handle, Lane::Members, &host->arrivals_posted, Scope::System, Order::Ordered);
    watch_entry(ag, args, r.watch);
    // After an abort nobody needs the relay, and CTAs that never started may be waiting for its SM.
    r.finished = r.watch.told ? static_cast<i64>(~0ull >> 1) : r.watch.entered ? agents_finished(ag, args) : 0;
    ag.idle_until = r.watch.until_ns;
}

template <class Args>
void relay_next(Agent&, const Args&, Relay& r) {
    r.taken += 1;
}

// Abort and progress go into DeviceState; the ring entries taken go back to the proxy, released after they were read.
template <class Args>
void relay_forward(Agent& ag, const Args& args, Relay& r, Scope scope) {
    DeviceState* state = args.launch.state;
    spread_abort(ag, args, r.watch, r.abort);
    if (r.watch.told) ag.idle_until = 0;   // the next poll ends the relay: nothing else may happen any more
    if (r.completed != r.forwarded_completed) {
        ag.engine->signal(ag.handle, Lane::Members, &state->fifo_completed, r.completed, Update::Set, scope,
                          Order::Ordered);
        r.forwarded_completed = r.completed;
    }
    if (r.taken != r.forwarded_taken) {
        ag.engine->signal(ag.handle, Lane::Members, &state->arrivals_taken, r.taken, Update::Set, Scope::Gpu,
                          Order::Relaxed);
        ag.engine->signal(ag.handle, Lane::Members, &args.launch.host->arrivals_taken, r.taken, Update::Set,
                          Scope::System, Order::Ordered);
        r.forwarded_taken = r.taken;
    }
}

static inline void relay_idle(Agent& ag) { ag.engine->idle(ag.handle, ag.idle_until); }

}  // namespace plait
