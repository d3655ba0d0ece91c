// What every launch carries, in front of the fields that one kernel adds. Filled by the runtime, read by the kernel.
//
// DeviceState lives in GPU memory (host memory on the host machine), one per Session and rank; zeroed once.
// HostLines live in pinned host memory, written by the proxy, the Session and the relay, polled by one relay agent alone:
// every field that it polls has its own line.
#pragma once
#include "flag.h"
#include "transfer_command.h"

namespace plait {

inline constexpr u32 kMaxNodeRanks = 16;   // ranks of one node whose memory a kernel can address
inline constexpr u32 kAbiVersion = 3;

// Why a launch was given up. Not 0: DeviceState::abort, HostLines::abort.
enum class AbortCause : u64 {
    None = 0,
    Wait = 1,      // a wait on another rank's work reached its deadline, counted from when all ranks had entered
    Entry = 2,     // a rank did not enter before the entry deadline
    Ctas = 3,      // not all CTAs of this launch were started before the entry deadline
    Disagree = 4,  // a peer entered another launch: other M, other artifact, other order
    Host = 5,      // Session::abort
    Network = 6,   // the proxy of this rank died
    Value = 7,     // a value in one of the caller's lists is outside of what was promised
};

// The first cause of an abort, in the words of the rank that found it. One line, so that it travels as one message:
// the finder fills it into its DeviceState, relays copy it into `told` of their peers, unchanged from rank to rank.
//
// `taken`: 0 free, less than kStallFilled claimed, from there on filled (released). `flag`: in the workspace, as a byte
// offset, which is the same on all ranks, or in DeviceState, as kInDeviceState plus a byte offset; in the finder's own
// DeviceState an address until it has been handed on. rank to artifact are written when a launch begins.
struct StallRecord {
    u64 taken;
    u64 cause;     // AbortCause
    u64 rank;      // who found it
    u64 epoch;     // of the launch; 0: its relay did not start
    u64 m;         // of the launch
    u64 artifact;  // Launch::artifact_offset of the launch
    u64 site;      // Wait, Value: index into the manifest's wait sites
    u64 flag;      // Value: index in the list
    u64 expected;  // Value: the least that was promised
    u64 seen;
    u64 cta;
    u64 work;      // Wait: the tile or chunk that the agent was at; kNoWork before the first
    u64 ctas_in;   // CTAs of this launch that had started
    u64 ctas;
    u64 peer;      // Entry, Disagree: which rank; Value: the most that was promised
    u64 teller_m;  // in `told`: M of the launch of the rank that tells, which may not be the one that found it
};
inline constexpr u32 kStallWords = 16;
static_assert(sizeof(StallRecord) == 8 * kStallWords && sizeof(StallRecord) == kFlagLineBytes);
inline constexpr u64 kInDeviceState = 1ull << 63;
inline constexpr u64 kNoWork = ~0ull;
inline constexpr u64 kGivenUp = 1ull << 32;   // far above every number of CTAs
inline constexpr u64 kStallFilled = 1ull << 32;   // or more: a machine may claim by adding

struct DeviceState {
    u64 epoch;           // launches completed; the last CTA out adds one
    u64 next_tile;       // tile counter of the launch under way; the last CTA out zeroes it
    u64 ctas_in;         // CTAs started; zeroed likewise
    u64 ctas_out;        // CTAs that have left, plus kGivenUp each time that the launch was given up; zeroed likewise
    u64 finished;        // agents that wait on others and are done, see relay
    u64 abort;           // not 0: leave
    u64 fifo_next;       // ring positions claimed, over the Session's life
    u64 fifo_completed;  // ring positions whose transfer is locally complete; forwarded by the relay
    u64 arrivals_taken;  // arrivals forwarded by the relay, over the Session's life
    u64 all_entered_ns;  // when all ranks had entered this launch, by the relay's clock; 0 before; zeroed likewise
    u64 watch_start_ns;  // when the relay of this launch began to look; 0 before; zeroed likewise
    u64 reserved[5];
    StallRecord stall;
};
PLAIT_AT_OFFSET(DeviceState, stall, kFlagLineBytes);
static_assert(sizeof(DeviceState) == 2 * kFlagLineBytes);

struct HostLines {
    u64 abort;           u64 pad0[15];   // AbortCause; written by the Session, the proxy's owner, an agent that gives up
    u64 fifo_completed;  u64 pad1[15];   // written by the proxy
    u64 arrivals_posted; u64 pad2[15];   // written by the proxy after the ring entry, release
    u64 arrivals_taken;  u64 pad3[15];   // written by the relay: frees ring entries
    u64 told;            u64 pad4[15];   // not 0: `told` of this rank is filled, the proxy sends it to other nodes
    u64 launch_begun;    u64 pad5[15];   // epoch; written by the relay where there are other nodes, read by the proxy
    u64 launch_ended;    u64 pad6[15];   // epoch; written by the last CTA out, likewise
};
PLAIT_AT_OFFSET(HostLines, fifo_completed, kFlagLineBytes);
PLAIT_AT_OFFSET(HostLines, arrivals_posted, 2 * kFlagLineBytes);
PLAIT_AT_OFFSET(HostLines, told, 4 * kFlagLineBytes);
PLAIT_AT_OFFSET(HostLines, launch_ended, 6 * kFlagLineBytes);

// The workspace begins with the Session's own area, one line each; artifacts' areas follow:
//   entered[rank]  word 0: written by that rank on entry, see below
//                  word 1: epoch in which that rank, of this node, has seen all its rail peers enter
//   told[rank]     StallRecord, written by that rank when it gives up
//   abort          1 + the rank whose `told` was filled; written by any peer
inline constexpr u64 kEnteredOffset = 0;
inline constexpr u64 kRailsEnteredWord = 1;
PLAIT_SHARED u64 told_offset(u64 world, u64 rank) { return kEnteredOffset + kFlagLineBytes * (world + rank); }
PLAIT_SHARED u64 abort_word_offset(u64 world) { return told_offset(world, world); }
PLAIT_SHARED u64 session_area_bytes(u64 world) { return abort_word_offset(world) + kFlagLineBytes; }

// An entered word is the epoch and, below it, the signature of the launch: ranks that enter different launches under
// one epoch see it in the word they read anyway, on every transport. Words still only grow with the epoch. 2^44
// epochs of 1 us last half a year.
inline constexpr u32 kSignatureBits = 20;
inline constexpr u64 kSignatureMask = (1ull << kSignatureBits) - 1;
PLAIT_SHARED u64 entered_word(u64 epoch, u64 signature) { return epoch << kSignatureBits | (signature & kSignatureMask); }
PLAIT_SHARED u64 entered_epoch(u64 word) { return word >> kSignatureBits; }

// The first field, named `launch`, of every kernel's Args.
struct Launch {
    DeviceState* state;
    HostLines* host;
    TransferCommand* fifo;             // fifo_slots entries, a power of two
    const Arrival* arrivals;           // arrival_slots entries, a power of two
    u8* workspace[kMaxNodeRanks];      // bases of the symmetric workspaces of this node's ranks, by local rank
    u64 fifo_slots;
    u64 arrival_slots;
    u64 entry_deadline_ns;
    u64 wait_deadline_ns;
    i64 m;                             // rows of the whole problem
    i32 rank, world;
    i32 node, nodes;
    i32 local_rank, local_ranks;
    u64 artifact_offset;               // where this artifact's area starts in every rank's workspace
    u64 signature;                     // kSignatureBits of what all ranks must agree on: artifact, M
};
PLAIT_AT_OFFSET(Launch, workspace, 32);
PLAIT_AT_OFFSET(Launch, fifo_slots, 32 + 8 * kMaxNodeRanks);
static_assert(sizeof(Launch) == 32 + 8 * kMaxNodeRanks + 6 * 8 + 8 * 4);

// 128 bytes. On sm90 a CUtensorMap; on the host the description that the host machine clips by.
struct alignas(64) TensorMap {
    u64 word[16];
};
static_assert(sizeof(TensorMap) == 128);

// The host machine's reading of a TensorMap. Innermost dimension first, as cuTensorMapEncodeTiled takes them.
struct HostTensorMap {
    u8* base;
    u64 extent[3];        // elements
    u64 stride_bytes[2];  // of dimensions 1 and 2
    u32 box[3];           // elements
    u32 element_bytes;
};
static_assert(sizeof(HostTensorMap) <= sizeof(TensorMap));

}  // namespace plait
