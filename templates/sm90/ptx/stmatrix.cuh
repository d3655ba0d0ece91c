// stmatrix (PTX ISA, "Warp-level matrix store instruction"): four 8x8 matrices of 16-bit elements; lanes 8i..8i+7 give
// the row addresses of matrix i. The register layout is the accumulator's.
#pragma once
#include "space.cuh"

namespace plait::ptx {

PLAIT_DEVICE void stmatrix_x4(u32 row_address, u32 m0, u32 m1, u32 m2, u32 m3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address), "r"(m0), "r"(m1),
                 "r"(m2), "r"(m3)
                 : "memory");
}

}  // namespace plait::ptx
