// Device side of the FIFO (abi/transfer_command.h): thread agents claim positions, write commands into pinned host memory
// and publish them. Progress comes back through DeviceState, forwarded by the relay: no agent but the relay reads host lines.
#pragma once
#include "flag.cuh"

namespace plait {

// Waits until `fifo_completed` has reached `count` commands.
template <class Args>
PLAIT_DEVICE void wait_completed(Agent& ag, const Args& args, i64 count, i64 site) {
    wait_flag(ag, args, &args.launch.state->fifo_completed, static_cast<u64>(count), Scope::Gpu, site);
}

// Position p may be written once command p - slots is complete. Where the wait gave up, fifo_write and fifo_publish do
// nothing: the proxy stops at the position that never comes.
template <class Args>
PLAIT_DEVICE i64 fifo_reserve(Agent& ag, const Args& args, i64 site) {
    const i64 position = static_cast<i64>(ptx::fetch_add_relaxed_gpu(&args.launch.state->fifo_next, 1));
    const i64 slots = static_cast<i64>(args.launch.fifo_slots);
    if (position >= slots) wait_completed(ag, args, position - slots + 1, site);
    return position;
}

template <class Args>
PLAIT_DEVICE TransferCommand& fifo_slot(const Args& args, i64 position) {
    return args.launch.fifo[static_cast<u64>(position) & (args.launch.fifo_slots - 1)];
}

// Same offset at source and destination. All fields but `sequence`.
template <class Args>
PLAIT_DEVICE void fifo_write(Agent& ag, const Args& args, i64 position, i64 rank, u64 offset, i64 bytes, u64 signal_offset,
                             u64 signal_value) {
    if (!ag.elected() || ag.stopped) return;
    TransferCommand& command = fifo_slot(args, position);
    command.opcode = static_cast<u32>(TransferOpcode::PutSignal);
    command.destination_rank = static_cast<u32>(rank);
    command.source_offset = offset;
    command.destination_offset = offset;
    command.bytes = static_cast<u64>(bytes);
    command.signal_offset = signal_offset;
    command.signal_value = signal_value;
    command.reserved = 0;
}

// The proxy and the NIC are observers of system scope; the record's fields and the payload go before the sequence.
template <class Args>
PLAIT_DEVICE void fifo_publish(Agent& ag, const Args& args, i64 position, Scope scope) {
    if (ag.elected() && !ag.stopped) ptx::store_release(&fifo_slot(args, position).sequence, static_cast<u64>(position) + 1, scope);
}

// Commands before `position` are locally complete.
template <class Args>
PLAIT_DEVICE void fifo_wait(Agent& ag, const Args& args, i64 position, i64 site) {
    wait_completed(ag, args, position, site);
}

}  // namespace plait
