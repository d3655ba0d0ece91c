// The relay: one thread of CTA 0, the only poller of HostLines (readers of one host line serialise at about one read per
// microsecond for the whole GPU). It forwards into this GPU's memory: abort, fifo_completed, and the flags of arrivals; and
// it watches over the launch: who has entered, what peers say of an abort (../../launch_watch.h).
#pragma once
#include "flag.cuh"
#include "launch.cuh"

namespace plait {

struct Relay {
    u64 taken;        // arrivals forwarded, over the Session's life
    u64 posted;       // arrivals seen
    u64 completed;    // fifo_completed seen
    u64 abort;        // host's abort seen
    u64 forwarded_completed, forwarded_taken;
    i64 finished = 0; // agents that are done, as of the last poll; 0 while ranks are still to enter
    LaunchWatch watch;

    template <class Args>
    PLAIT_DEVICE explicit Relay(const Args& args)
        : taken(ptx::load_relaxed_gpu(&args.launch.state->arrivals_taken)), posted(taken),
          completed(ptx::load_relaxed_gpu(&args.launch.state->fifo_completed)), abort(0), forwarded_completed(completed),
          forwarded_taken(taken), workspace_(args.launch.workspace[args.launch.local_rank]), arrivals_(args.launch.arrivals),
          mask_(args.launch.arrival_slots - 1) {}

    PLAIT_DEVICE bool has_arrival() const { return taken != posted; }
    // Of the oldest arrival not taken. Relaxed loads of the ring, not cached ones: the host rewrites its entries.
    template <class Args>
    PLAIT_DEVICE Flag* arrival_flag(const Args&) const {
        return reinterpret_cast<Flag*>(workspace_ + ptx::load_relaxed_sys(&arrivals_[taken & mask_].signal_offset));
    }
    // Never less than what the flag holds: an unordered network may deliver epoch e after e + 1, and flags only grow.
    // The relay is the only writer of such a flag, so a look before the store is enough.
    PLAIT_DEVICE u64 arrival_value() const {
        const Arrival& arrival = arrivals_[taken & mask_];
        const u64 value = ptx::load_relaxed_sys(&arrival.signal_value);
        const u64 held = ptx::load_relaxed_sys(reinterpret_cast<const u64*>(workspace_ + ptx::load_relaxed_sys(&arrival.signal_offset)));
        return held > value ? held : value;
    }

private:
    u8* workspace_;
    const Arrival* arrivals_;
    u64 mask_;
};

// Acquires a word whose value has changed. The relaxed look comes first: three dependent acquires of host lines would
// cost three round trips over PCIe a poll.
PLAIT_DEVICE void acquire_changed(const u64* word, u64 looked, u64& known) {
    if (looked != known) known = ptx::load_acquire_sys(word);
}

template <class Args>
PLAIT_DEVICE void relay_poll(Agent& ag, const Args& args, Relay& r) {
    const HostLines* host = args.launch.host;
    const u64 abort = ptx::load_relaxed_sys(&host->abort);
    const u64 completed = ptx::load_relaxed_sys(&host->fifo_completed);
    const u64 posted = ptx::load_relaxed_sys(&host->arrivals_posted);
    acquire_changed(&host->abort, abort, r.abort);
    acquire_changed(&host->fifo_completed, completed, r.completed);
    acquire_changed(&host->arrivals_posted, posted, r.posted);
    watch_entry(ag, args, r.watch);
    // After an abort nobody needs the relay, and CTAs that never started may be waiting for its SM.
    r.finished = r.watch.told ? static_cast<i64>(~0ull >> 1) : r.watch.entered ? agents_finished(ag, args) : 0;
}

template <class Args>
PLAIT_DEVICE void relay_next(Agent&, const Args&, Relay& r) {
    r.taken += 1;
}

// Abort and progress go into DeviceState; the ring entries taken go back to the proxy, released after they were read.
template <class Args>
PLAIT_DEVICE void relay_forward(Agent& ag, const Args& args, Relay& r, Scope scope) {
    DeviceState* state = args.launch.state;
    spread_abort(ag, args, r.watch, r.abort);
    if (r.completed != r.forwarded_completed) {
        ptx::store_release(&state->fifo_completed, r.completed, scope);
        r.forwarded_completed = r.completed;
    }
    if (r.taken != r.forwarded_taken) {
        ptx::store_relaxed_gpu(&state->arrivals_taken, r.taken);
        ptx::store_release_sys(&args.launch.host->arrivals_taken, r.taken);
        r.forwarded_taken = r.taken;
    }
}

PLAIT_DEVICE void relay_idle(Agent&) { ptx::nanosleep(200); }

}  // namespace plait
