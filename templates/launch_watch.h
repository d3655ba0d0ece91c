// The watch over a launch, shared by both machines: until when a wait waits, who has entered, and how a launch is given
// up on all ranks. Written against a few words of each machine's own (sync/words.cuh, words.h), declared before this file:
//   word_peek, word_peek_acquire (load), word_poke, word_publish (store, release), word_add (relaxed, Gpu scope),
//   word_claim (0 -> not 0, once), clock_ns
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

// What an agent found, as its rank's record says it first: `flag` is an address, told_record makes a place of it.
inline constexpr u64 kNever = ~0ull;

struct Finding {
    AbortCause cause;
    const u64* flag;
    u64 expected, seen, site, peer;
};

// Short, since it is inlined at every wait: what all findings of a launch share was written when it began (watch_entry).
template <class Args>
PLAIT_AGENT void give_up(Agent& ag, const Args& args, const Finding& found) {
    DeviceState* state = args.launch.state;
    if (word_claim(ag, &state->stall.taken)) {
        StallRecord& record = state->stall;
        record.cause = static_cast<u64>(found.cause);
        record.site = found.site;
        record.flag = reinterpret_cast<u64>(found.flag);
        record.expected = found.expected;
        record.seen = found.seen;
        record.cta = static_cast<u64>(ag.cta);
        record.work = ag.work < 0 ? kNoWork : static_cast<u64>(ag.work);
        record.ctas_in = word_peek(ag, &state->ctas_in, Scope::Gpu);
        record.ctas = static_cast<u64>(ag.ctas);
        record.peer = found.peer;
        word_publish(ag, &record.taken, kStallFilled, Scope::Gpu);
    }
    word_add(ag, &state->ctas_out, kGivenUp);   // in the word that the last CTA out reads anyway
    word_publish(ag, &state->abort, static_cast<u64>(found.cause), Scope::Gpu);
}

// The relay's part of it.
struct LaunchWatch {
    u64 start_ns = 0, epoch = 0;
    u64 until_ns = kNever;     // when the relay gives up on who has not entered, as far as is known now
    bool started = false;
    bool entered = false;      // all ranks have entered this launch, and all agree on what it is
    bool rails_told = false;   // peers of this node know that this rank's rail peers have entered
    bool told = false;         // the abort, if there is one, has been handed on
};

template <class Args>
PLAIT_AGENT void begin_watch(Agent& ag, const Args& args, LaunchWatch& watch, u64 now) {
    DeviceState* state = args.launch.state;
    watch.started = true;
    watch.start_ns = now;
    watch.epoch = word_peek(ag, &state->epoch, Scope::Gpu) + 1;
    if (word_peek(ag, &state->stall.taken, Scope::Gpu) == 0) {
        state->stall.rank = static_cast<u64>(args.launch.rank);
        state->stall.epoch = watch.epoch;
        state->stall.m = static_cast<u64>(args.launch.m);
        state->stall.artifact = args.launch.artifact_offset;
    }
    if (args.launch.nodes > 1) word_poke(ag, &args.launch.host->launch_begun, watch.epoch, Scope::System);
}

// Every rank is a rail peer of a rank of this node: each tells the others, in word 1 of its line, that its own are there.
template <class Args>
PLAIT_AGENT void tell_of_rails(Agent& ag, const Args& args, LaunchWatch& watch) {
    const i64 nodes = args.launch.nodes, locals = args.launch.local_ranks, local = args.launch.local_rank;
    if (watch.rails_told || nodes == 1) return;
    for (i64 d = 1; d < nodes; d += 1) {
        const u64 seen = word_peek(ag, own_entered(args, (args.launch.node + d) % nodes * locals + local), Scope::System);
        if (entered_epoch(seen) < watch.epoch) return;
    }
    for (i64 p = 1; p < locals; p += 1)
        word_poke(ag, peer_entered(args, (local + p) % locals, args.launch.rank) + kRailsEnteredWord, watch.epoch, Scope::System);
    watch.rails_told = true;
}

// The first rank found that has not entered (cause Entry) or entered something else (Disagree); None where all are there.
template <class Args>
PLAIT_AGENT Finding look_for_peers(Agent& ag, const Args& args, const LaunchWatch& watch) {
    const i64 rails = args.launch.nodes - 1, locals = args.launch.local_ranks, local = args.launch.local_rank;
    const u64 expected = entered_word(watch.epoch, args.launch.signature);
    Finding found{AbortCause::None, nullptr, expected, 0, 0, 0};
    for (i64 i = 0; i < rails + locals - 1 && found.cause == AbortCause::None; i += 1) {
        const i64 peer = i < rails ? (args.launch.node + 1 + i) % args.launch.nodes * locals + local
                                   : args.launch.node * locals + (local + 1 + i - rails) % locals;
        const u64* flag = own_entered(args, peer);
        u64 seen = word_peek(ag, flag, Scope::System);
        // A peer that is a launch ahead has compared: it ended this launch after it saw this rank enter.
        const bool differs = entered_epoch(seen) == watch.epoch && seen != expected;
        bool there = entered_epoch(seen) >= watch.epoch;
        u64 word = 0;
        if (there && i >= rails && rails > 0) {
            word = kRailsEnteredWord;
            seen = word_peek(ag, flag + word, Scope::System);
            there = seen >= watch.epoch;
        }
        if (there && !differs) continue;
        found = Finding{differs ? AbortCause::Disagree : AbortCause::Entry, flag + word, expected, seen, word, static_cast<u64>(peer)};
    }
    return found;
}

// One look at who has entered; costs nothing once all have. The relay leaves only then, so no rank can run two launches
// ahead of another, and of two ranks that disagree at least one sees it.
template <class Args>
PLAIT_AGENT void watch_entry(Agent& ag, const Args& args, LaunchWatch& watch) {
    if (watch.entered || watch.told) return;
    DeviceState* state = args.launch.state;
    const u64 now = clock_ns(ag);
    if (!watch.started) begin_watch(ag, args, watch, now);
    tell_of_rails(ag, args, watch);
    Finding found = look_for_peers(ag, args, watch);
    const bool all_started = word_peek(ag, &state->ctas_in, Scope::Gpu) >= static_cast<u64>(ag.ctas);
    if (found.cause == AbortCause::None && all_started) {
        watch.entered = true;
        watch.until_ns = kNever;
        word_poke(ag, &state->all_entered_ns, now, Scope::Gpu);
        return;
    }
    // Who only knows that a peer misses somebody leaves it to that peer to say whom.
    watch.until_ns = watch.start_ns + args.launch.entry_deadline_ns + (found.site == kRailsEnteredWord ? kEntryGraceNs / 2 : 0);
    if (found.cause != AbortCause::Disagree && now < watch.until_ns) return;
    if (found.cause != AbortCause::Disagree && !all_started) found.cause = AbortCause::Ctas;
    give_up(ag, args, found);
}

// Where a word lies, for a rank that has other addresses.
template <class Args>
PLAIT_AGENT u64 place_of(const Args& args, u64 address) {
    const u64 in_state = address - reinterpret_cast<u64>(args.launch.state);
    if (in_state < sizeof(DeviceState)) return kInDeviceState + in_state;
    return address - reinterpret_cast<u64>(args.launch.workspace[args.launch.local_rank]);
}

PLAIT_AGENT void copy_record(Agent& ag, u64* to, const u64* from) {
    for (u32 word = 1; word < kStallWords; word += 1) word_poke(ag, to + word, word_peek(ag, from + word, Scope::System), Scope::System);
    word_publish(ag, to, kStallFilled, Scope::System);
}

// Hands an abort on, once: one that an agent of this rank, its host or a peer (`told_by` - 1) raised. The record goes into
// the peers' `told`, and from there on unchanged; the host's proxy takes it to the other nodes.
template <class Args>
PLAIT_AGENT void spread_abort(Agent& ag, const Args& args, LaunchWatch& watch, u64 host_abort, u64 told_by) {
    DeviceState* state = args.launch.state;
    const u64 world = static_cast<u64>(args.launch.world), rank = static_cast<u64>(args.launch.rank);
    const i64 locals = args.launch.local_ranks, local = args.launch.local_rank;
    if (watch.told || (word_peek(ag, &state->abort, Scope::Gpu) == 0 && host_abort == 0 && told_by == 0)) return;
    u64* record = &state->stall.taken;
    u8* own = args.launch.workspace[local];
    if (told_by != 0 && word_claim(ag, record)) copy_record(ag, record, reinterpret_cast<const u64*>(own + told_offset(world, told_by - 1)));
    // Fills the record where nobody has.
    give_up(ag, args, Finding{host_abort != 0 ? static_cast<AbortCause>(host_abort) : AbortCause::Host, nullptr, 0, 0, 0, 0});
    if (word_peek_acquire(ag, record, Scope::Gpu) < kStallFilled) return;   // another agent is at it: next round
    watch.told = true;
    watch.until_ns = kNever;
    if (word_peek(ag, reinterpret_cast<const u64*>(own + told_offset(world, rank)), Scope::System) >= kStallFilled) return;   // an earlier launch, or the host
    for (i64 p = 0; p < locals; p += 1) {
        const i64 to = (local + 1 + p) % locals;   // this rank's own last: from there the NIC reads it
        u8* workspace = args.launch.workspace[to];
        if (p == 0 && state->stall.rank == rank) state->stall.flag = place_of(args, state->stall.flag);
        state->stall.teller_m = static_cast<u64>(args.launch.m);
        copy_record(ag, reinterpret_cast<u64*>(workspace + told_offset(world, rank)), record);
        if (to != local) word_publish(ag, reinterpret_cast<u64*>(workspace + abort_word_offset(world)), 1 + rank, Scope::System);
    }
    word_publish(ag, &args.launch.host->told, 1, Scope::System);
    word_publish(ag, &args.launch.host->abort, state->stall.cause, Scope::System);
}

}  // namespace plait
