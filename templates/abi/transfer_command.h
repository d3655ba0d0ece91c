// The device-to-host FIFO: what a kernel asks its proxy to send. Ring in pinned host memory, one per rank.
//
//  byte  field               meaning
//   0    sequence            1 + ring position; written last, release at System scope. The proxy takes the slot
//                            when it reads the position it expects (acquire)
//   8    opcode              TransferOpcode
//  12    destination_rank    global rank
//  16    source_offset       bytes from the start of the sender's workspace
//  24    destination_offset  bytes from the start of the destination's workspace
//  32    bytes               payload; 0 for a signal alone
//  40    signal_offset       bytes from the start of the destination's workspace: the flag that announces the payload
//  48    signal_value        value the flag has once the payload is visible
//  56    reserved            0
//
// Contract: a visible signal implies a visible payload, on every transport.
#pragma once
#include "types.h"

namespace plait {

enum class TransferOpcode : u32 { PutSignal = 1 };

struct TransferCommand {
    u64 sequence;
    u32 opcode;
    u32 destination_rank;
    u64 source_offset;
    u64 destination_offset;
    u64 bytes;
    u64 signal_offset;
    u64 signal_value;
    u64 reserved;
};
static_assert(sizeof(TransferCommand) == 64, "one cache line");
PLAIT_AT_OFFSET(TransferCommand, opcode, 8);
PLAIT_AT_OFFSET(TransferCommand, source_offset, 16);
PLAIT_AT_OFFSET(TransferCommand, bytes, 32);
PLAIT_AT_OFFSET(TransferCommand, signal_value, 48);

// An arrival that the receiving proxy publishes (transports that order nothing): the relay forwards it into GPU memory.
//  byte 0 signal_offset: the flag's place in this rank's workspace; byte 8 signal_value.
struct Arrival {
    u64 signal_offset;
    u64 signal_value;
};
static_assert(sizeof(Arrival) == 16);

}  // namespace plait
