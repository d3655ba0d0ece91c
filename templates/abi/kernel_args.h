// What every launch carries, in front of the fields that one kernel adds. Filled by the runtime, read by the kernel.
//
// DeviceState lives in GPU memory (host memory on the host machine), one per Session and rank; zeroed once.
// HostLines live in pinned host memory, written by the proxy and the watchdog, polled by one relay agent alone:
// every field that it polls has its own line. An agent that gives up sets `abort` there too, for the next launch to see.
#pragma once
#include "flag.h"
#include "transfer_command.h"

namespace plait {

inline constexpr u32 kMaxNodeRanks = 16;   // ranks of one node whose memory a kernel can address
inline constexpr u32 kAbiVersion = 1;

// Why and where a wait gave up, or which value broke its promise. Written once, by the agent that wins the
// compare-and-swap on `taken`.
struct StallRecord {
    u64 taken;
    u64 site;      // index into the manifest's wait sites
    u64 flag;      // address of the flag; of a value its index in the list
    u64 expected;  // of a value the least that was promised
    u64 seen;
    u64 cta;
    u64 most;      // of a value
};

struct DeviceState {
    u64 epoch;           // launches completed; the last CTA out adds one
    u64 next_tile;       // tile counter of the launch under way; the last CTA out zeroes it
    u64 ctas_in;
    u64 ctas_out;
    u64 finished;        // agents that wait on others and are done, see relay
    u64 abort;           // not 0: leave
    u64 fifo_next;       // ring positions claimed, over the Session's life
    u64 fifo_completed;  // ring positions whose transfer is locally complete; forwarded by the relay
    u64 arrivals_taken;  // arrivals forwarded by the relay, over the Session's life
    u64 reserved[7];
    StallRecord stall;
};

struct HostLines {
    u64 abort;           u64 pad0[15];
    u64 fifo_completed;  u64 pad1[15];   // written by the proxy
    u64 arrivals_posted; u64 pad2[15];   // written by the proxy after the ring entry, release
    u64 arrivals_taken;  u64 pad3[15];   // written by the relay: frees ring entries
};
PLAIT_AT_OFFSET(HostLines, fifo_completed, kFlagLineBytes);
PLAIT_AT_OFFSET(HostLines, arrivals_posted, 2 * kFlagLineBytes);

// The workspace begins with the Session's own area: entered[rank], one line each; artifacts' areas follow.
inline constexpr u64 kEnteredOffset = 0;

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
};
PLAIT_AT_OFFSET(Launch, workspace, 32);
PLAIT_AT_OFFSET(Launch, fifo_slots, 32 + 8 * kMaxNodeRanks);
static_assert(sizeof(Launch) == 32 + 8 * kMaxNodeRanks + 5 * 8 + 8 * 4);

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
