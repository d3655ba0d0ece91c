// Where things are in the symmetric workspaces. `offset` is relative to the artifact's area, `peer` a local rank.
#pragma once
#include "../../abi/kernel_args.h"
#include "../ptx/space.cuh"

namespace plait {

template <class Args>
PLAIT_DEVICE u64 area_offset(const Args& args, u64 offset, i64 byte) {
    return args.launch.artifact_offset + offset + static_cast<u64>(byte);
}
template <class Args>
PLAIT_DEVICE u64 flag_offset(const Args& args, u64 offset, i64 index) {
    return area_offset(args, offset, index * static_cast<i64>(kFlagBytes));
}
PLAIT_DEVICE u64 entered_offset(i64 index) { return kEnteredOffset + kFlagLineBytes * static_cast<u64>(index); }

template <class Args>
PLAIT_DEVICE u8* peer_bytes(const Args& args, u64 offset, i64 peer, i64 byte) {
    return args.launch.workspace[peer] + area_offset(args, offset, byte);
}
template <class Args>
PLAIT_DEVICE u8* own_bytes(const Args& args, u64 offset, i64 byte) {
    return peer_bytes(args, offset, args.launch.local_rank, byte);
}
template <class T>
PLAIT_DEVICE const u8* tensor_bytes(const T* tensor, i64 byte) {
    return reinterpret_cast<const u8*>(tensor) + byte;
}

template <class Args>
PLAIT_DEVICE Flag* peer_flag(const Args& args, u64 offset, i64 peer, i64 index) {
    return reinterpret_cast<Flag*>(args.launch.workspace[peer] + flag_offset(args, offset, index));
}
template <class Args>
PLAIT_DEVICE Flag* own_flag(const Args& args, u64 offset, i64 index) {
    return peer_flag(args, offset, args.launch.local_rank, index);
}
template <class Args>
PLAIT_DEVICE Flag* peer_entered(const Args& args, i64 peer, i64 index) {
    return reinterpret_cast<Flag*>(args.launch.workspace[peer] + entered_offset(index));
}
template <class Args>
PLAIT_DEVICE Flag* own_entered(const Args& args, i64 index) {
    return peer_entered(args, args.launch.local_rank, index);
}

// What an entered flag holds once a rank has entered launch `epoch`, and the least that such a flag holds then.
template <class Args>
PLAIT_DEVICE u64 entered_value(const Args& args, i64 epoch) {
    return entered_word(static_cast<u64>(epoch), args.launch.signature);
}
PLAIT_DEVICE u64 entered_since(i64 epoch) { return entered_word(static_cast<u64>(epoch), 0); }

}  // namespace plait
