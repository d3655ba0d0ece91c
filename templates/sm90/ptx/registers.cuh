// setmaxnreg (PTX ISA, "Miscellaneous Instructions: setmaxnreg"): all warps of a warpgroup execute it, and the sum over
// warpgroups must not exceed what the launch got (launch registers x threads; 168 x 384 = 64512 at 384 threads).
#pragma once
#include "space.cuh"

namespace plait::ptx {

template <int Count>
PLAIT_DEVICE void decrease_registers() {
    static_assert(Count >= 24 && Count <= 256 && Count % 8 == 0, "setmaxnreg takes 24 to 256 in steps of 8");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

template <int Count>
PLAIT_DEVICE void increase_registers() {
    static_assert(Count >= 24 && Count <= 256 && Count % 8 == 0, "setmaxnreg takes 24 to 256 in steps of 8");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

}  // namespace plait::ptx
