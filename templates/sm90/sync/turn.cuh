// Consumer warpgroups that compute by turns, so that one's softmax runs beside another's products (PTX ISA, "barrier.sync",
// "barrier.arrive"): 128 threads wait, the 128 threads that pass arrive. Nothing of memory is ordered by it in the Plan's sense:
// no role reads what another one's turn wrote.
#pragma once
#include "agent.cuh"

namespace plait {

// Hardware barriers: 0 is the CTA's, 1 to 7 are the warpgroups', the turns follow.
inline constexpr u32 kFirstTurnBarrier = 8;

PLAIT_DEVICE void turn_wait(Agent&, i64 turn) { ptx::sync_barrier(kFirstTurnBarrier + static_cast<u32>(turn), 256); }
PLAIT_DEVICE void turn_pass(Agent&, i64 turn) { ptx::arrive_barrier(kFirstTurnBarrier + static_cast<u32>(turn), 256); }

}  // namespace plait
