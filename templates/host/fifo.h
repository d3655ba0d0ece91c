// Device side of the FIFO (../abi/transfer_command.h). Progress comes back through DeviceState, forwarded by the relay.
#pragma once
#include "flag.h"

namespace plait {

// Waits until `fifo_completed` has reached `count` commands.
template <class Args>
void wait_completed(Agent& ag, const Args& args, i64 count, i64 site) {
    wait_flag(ag, args, &args.launch.state->fifo_completed, static_cast<u64>(count), Scope::Gpu, site);
}

// Position p may be written once command p - slots is complete.
template <class Args>
i64 fifo_reserve(Agent& ag, const Args& args, i64 site) {
    const i64 position = static_cast<i64>(
        ag.engine->fetch_add(ag.handle, ag.elected, &args.launch.state->fifo_next, 1, Scope::Gpu, Order::Relaxed));
    const i64 slots = static_cast<i64>(args.launch.fifo_slots);
    if (position >= slots) wait_completed(ag, args, position - slots + 1, site);
    return position;
}

template <class Args>
TransferCommand& fifo_slot(const Args& args, i64 position) {
    return args.launch.fifo[static_cast<u64>(position) & (args.launch.fifo_slots - 1)];
}

// Same offset at source and destination. All fields but `sequence`.
template <class Args>
void fifo_write(Agent& ag, const Args& args, i64 position, i64 rank, u64 offset, i64 bytes, u64 signal_offset,
                u64 signal_value) {
    if (ag.stopped) return;
    TransferCommand& command = fifo_slot(args, position);
    constexpr u64 fields = sizeof(TransferCommand) - sizeof(command.sequence);
    ag.engine->access(ag.handle, ag.elected, Proxy::Generic, Access::Write, &command.opcode, fields, 1, fields);
    command.opcode = static_cast<u32>(TransferOpcode::PutSignal);
    command.destination_rank = static_cast<u32>(rank);
    command.source_offset = offset;
    command.destination_offset = offset;
    command.bytes = static_cast<u64>(bytes);
    command.signal_offset = signal_offset;
    command.signal_value = signal_value;
    command.reserved = 0;
}

template <class Args>
void fifo_publish(Agent& ag, const Args& args, i64 position, Scope scope) {
    signal_set(ag, &fifo_slot(args, position).sequence, static_cast<u64>(position) + 1, scope);
}

// Commands before `position` are locally complete.
template <class Args>
void fifo_wait(Agent& ag, const Args& args, i64 position, i64 site) {
    wait_completed(ag, args, position, site);
}

}  // namespace plait
