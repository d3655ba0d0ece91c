// Flags: 64-bit words that only grow. Device code, proxies and the simulator share this header.
//
// A flag array holds one word per chunk, packed: waits cover ranges of it. Words that different agents poll
// alone (entered, abort) stand kFlagLineBytes apart: readers of one host line serialise at one read per microsecond.
#pragma once
#include "types.h"

namespace plait {

using Flag = u64;
inline constexpr u64 kFlagBytes = 8;
inline constexpr u64 kFlagLineBytes = 128;

// How far an ordering action reaches. The network is reached through the FIFO, whose record is published at
// System scope: the NIC and the proxy are observers of the host's memory order.
enum class Scope : u32 { Cta = 0, Gpu = 1, System = 2 };

}  // namespace plait
