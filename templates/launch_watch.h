// The watch over a launch, shared by both machines: until when a wait waits, who has entered, and how a launch is given
// up on all ranks. Written against a few words of each machine's own (sync/words.cuh, words.h), declared before this file:
//   word_peek, word_peek_acquire (load), word_poke, word_publish (store, release), word_claim (0 -> not 0, once), clock_ns
// Nothing here orders data: what is read on the strength of these words is a StallRecord, after an acquire.
//
// A launch is given up by the first agent that finds a reason (give_up). It fills the StallRecord and raises `abort`; waits
// see that and return, puts and signals are suppressed (Agent::stopped), loops run out, the last CTA out says so (leave).
// The relay takes the record to the peers (spread_abort): they leave at once and know the first cause.
#pragma once
#include "abi/kernel_args.h"

namespace plait {

// The relay keeps the entry deadline. This much later the agents do, for a launch whose relay never started.
inline constexpr u64 kEntryGraceNs = 1000000000;

// When a wait that began at `start` gives up, as far as is known now: while ranks are still to come the entry deadline
// holds, the wait deadline runs from when all were there.
template <class Args>
PLAIT_AGENT u64 wait_deadline(Agent& ag, const Args& args, u64 start) {
    const u64 entered = word_peek(ag, &args.launch.state->all_entered_ns, Scope::Gpu);
    if (entered == 0) return start + args.launch.entry_deadline_ns + kEntryGraceNs;
    return (entered > start ? entered : start) + args.launch.wait_deadline_ns;
}

struct Finding {
    AbortCause cause;
    u64 flag, expected, seen, site, peer;
};

template <class Args>
PLAIT_AGENT u64 place_of(const Args& args, const Flag* flag) {
    const u64 in_state = reinterpret_cast<u64>(flag) - reinterpret_cast<u64>(args.launch.state);
    if (in_state < sizeof(DeviceState)) return kInDeviceState + in_state;
    return reinterpret_cast<u64>(flag) - reinterpret_cast<u64>(args.launch.workspace[args.launch.local_rank]);
}

template <class Args>
PLAIT_AGENT void give_up(Agent& ag, const Args& args, const Finding& found) {
    DeviceState* state = args.launch.state;
    if (word_claim(ag, &state->stall.taken)) {
        StallRecord& record = state->stall;
        record.cause = static_cast<u64>(found.cause);
        record.rank = static_cast<u64>(args.launch.rank);
        record.epoch = word_peek(ag, &state->epoch, Scope::Gpu) + 1;
        record.m = static_cast<u64>(args.launch.m);
        record.artifact = args.launch.artifact_offset;
        record.site = found.site;
        record.flag = found.flag;
        record.expected = found.expected;
        record.seen = found.seen;
        record.cta = static_cast<u64>(ag.cta);
        record.work = static_cast<u64>(ag.work);
        record.ctas_in = word_peek(ag, &state->ctas_in, Scope::Gpu);
        record.ctas = static_cast<u64>(ag.ctas);
        record.peer = found.peer;
        word_publish(ag, &record.taken, kStallFilled, Scope::Gpu);
    }
    word_publish(ag, &state->abort, static_cast<u64>(found.cause), Scope::Gpu);
    word_publish(ag, &args.launch.host->abort, static_cast<u64>(found.cause), Scope::System);
}

// A wait has outlasted its deadline.
template <class Args>
PLAIT_AGENT void wait_expired(Agent& ag, const Args& args, const Flag* flag, u64 expected, u64 seen, i64 site) {
    const bool all_started = word_peek(ag, &args.launch.state->ctas_in, Scope::Gpu) >= static_cast<u64>(ag.ctas);
    give_up(ag, args, Finding{all_started ? AbortCause::Wait : AbortCause::Ctas, place_of(args, flag), expected, seen, static_cast<u64>(site), 0});
}

// The relay's part of it.
struct LaunchWatch {
    u64 start_ns = 0, epoch = 0;
    bool started = false;
    bool entered = false;      // all ranks have entered this launch, and all agree on what it is
    bool rails_told = false;   // peers of this node know that this rank's rail peers have entered
    bool told = false;         // the abort, if there is one, has been handed on
};

// The oldest thing that is missing for all to have entered.
struct MissingEntry {
    bool any = false;
    u64 peer = 0, flag = 0, expected = 0, seen = 0;
};

template <class Args>
PLAIT_AGENT void look_at_peer(Agent& ag, const Args& args, const LaunchWatch& watch, i64 peer, MissingEntry& missing) {
    const Flag* flag = own_entered(args, peer);
    const u64 expected = entered_word(watch.epoch, args.launch.signature);
    const u64 seen = word_peek(ag, flag, Scope::System);
    if (entered_epoch(seen) < watch.epoch) {
        missing = MissingEntry{true, static_cast<u64>(peer), place_of(args, flag), expected, seen};
    } else if (entered_epoch(seen) == watch.epoch && seen != expected) {
        // A peer that is a launch ahead has compared: it ended this launch after it saw this rank enter.
        give_up(ag, args, Finding{AbortCause::Disagree, place_of(args, flag), expected, seen, 0, static_cast<u64>(peer)});
    }
}

// Every rank is a rail peer of a rank of this node: peers of this node say in word 1 of their line that theirs are there.
template <class Args>
PLAIT_AGENT MissingEntry missing_entry(Agent& ag, const Args& args, LaunchWatch& watch) {
    const i64 nodes = args.launch.nodes, locals = args.launch.local_ranks;
    const i64 node = args.launch.node, local = args.launch.local_rank;
    MissingEntry missing;
    for (i64 d = 1; d < nodes; d += 1) look_at_peer(ag, args, watch, (node + d) % nodes * locals + local, missing);
    if (nodes > 1 && !missing.any && !watch.rails_told) {
        for (i64 p = 1; p < locals; p += 1)
            word_poke(ag, peer_entered(args, (local + p) % locals, args.launch.rank) + kRailsEnteredWord, watch.epoch, Scope::System);
        watch.rails_told = true;
    }
    for (i64 p = 1; p < locals; p += 1) {
        const i64 peer = node * locals + (local + p) % locals;
        look_at_peer(ag, args, watch, peer, missing);
        if (nodes == 1 || missing.any) continue;
        const Flag* rails = own_entered(args, peer) + kRailsEnteredWord;
        const u64 seen = word_peek(ag, rails, Scope::System);
        if (seen < watch.epoch) missing = MissingEntry{true, static_cast<u64>(peer), place_of(args, rails), watch.epoch, seen};
    }
    return missing;
}

// One look at who has entered; costs nothing once all have. The relay leaves only then, so no rank can run two launches
// ahead of another, and of two ranks that disagree at least one sees it.
template <class Args>
PLAIT_AGENT void watch_entry(Agent& ag, const Args& args, LaunchWatch& watch) {
    if (watch.entered || watch.told) return;
    DeviceState* state = args.launch.state;
    const u64 now = clock_ns(ag);
    if (!watch.started) {
        watch.started = true;
        watch.start_ns = now;
        watch.epoch = word_peek(ag, &state->epoch, Scope::Gpu) + 1;
        if (args.launch.nodes > 1) word_poke(ag, &args.launch.host->launch_begun, watch.epoch, Scope::System);
    }
    const MissingEntry missing = missing_entry(ag, args, watch);
    const u64 ctas_in = word_peek(ag, &state->ctas_in, Scope::Gpu), ctas = static_cast<u64>(ag.ctas);
    if (!missing.any && ctas_in >= ctas) {
        watch.entered = true;
        word_poke(ag, &state->all_entered_ns, now, Scope::Gpu);
        return;
    }
    if (now - watch.start_ns < args.launch.entry_deadline_ns) return;
    if (ctas_in < ctas)
        give_up(ag, args, Finding{AbortCause::Ctas, place_of(args, &state->ctas_in), ctas, ctas_in, 0, 0});
    else
        give_up(ag, args, Finding{AbortCause::Entry, missing.flag, missing.expected, missing.seen, 0, missing.peer});
}

PLAIT_AGENT void copy_record(Agent& ag, u64* to, const u64* from) {
    for (u32 word = 1; word < kStallWords; word += 1) word_poke(ag, to + word, word_peek(ag, from + word, Scope::System), Scope::System);
}

// Hands an abort on, once: one that an agent of this rank, its host or a peer (`told_by` - 1) raised. The record goes into
// the peers' `told` unchanged, the host's proxy takes it to the other nodes.
template <class Args>
PLAIT_AGENT void spread_abort(Agent& ag, const Args& args, LaunchWatch& watch, u64 host_abort, u64 told_by) {
    DeviceState* state = args.launch.state;
    const u64 world = static_cast<u64>(args.launch.world), rank = static_cast<u64>(args.launch.rank);
    const i64 locals = args.launch.local_ranks, local = args.launch.local_rank;
    if (watch.told) return;
    const u64 raised = word_peek(ag, &state->abort, Scope::Gpu);
    if (raised == 0 && host_abort == 0 && told_by == 0) return;
    u64* record = &state->stall.taken;
    u8* own = args.launch.workspace[local];
    if (told_by != 0 && word_claim(ag, record)) {
        copy_record(ag, record, reinterpret_cast<const u64*>(own + told_offset(world, told_by - 1)));
        word_publish(ag, record, kStallFilled, Scope::Gpu);
    }
    const u64 cause = raised != 0 ? raised : host_abort != 0 ? host_abort : state->stall.cause;
    give_up(ag, args, Finding{static_cast<AbortCause>(cause), 0, 0, 0, 0, 0});   // fills the record where nobody has
    if (word_peek_acquire(ag, record, Scope::Gpu) < kStallFilled) return;         // another agent is at it: next round
    for (i64 p = 0; p < locals; p += 1) {
        const i64 to = (local + 1 + p) % locals;   // this rank's own last: from there the NIC reads it
        u8* workspace = args.launch.workspace[to];
        u64* told = reinterpret_cast<u64*>(workspace + told_offset(world, rank));
        copy_record(ag, told, record);
        word_publish(ag, told, kStallFilled, Scope::System);
        if (to != local) word_publish(ag, reinterpret_cast<u64*>(workspace + abort_word_offset(world)), 1 + rank, Scope::System);
    }
    word_publish(ag, &args.launch.host->told, 1, Scope::System);
    watch.told = true;
}

}  // namespace plait
