// sm90's kernel_shapes.h: one specialisation of WgmmaShape per shape of MmaIssue in the plan, of WgmmaOperandShape per
// shape of MmaIssueOperand. The operand list of
// wgmma grows with N (PTX ISA, "wgmma.mma_async"), so it is printed for the shapes a kernel uses.
#pragma once
#include <compare>
#include <cstdint>
#include <set>
#include <string>

#include "compiler/ir/plan.h"

namespace plait {

struct WgmmaShapeKey {
    std::int64_t n = 0;          // multiple of 8, 8 to 256
    bool transpose_b = false;    // B is MN-major in shared memory: [K, N] in global memory
    std::string dtype;           // bf16 f16
    bool operand = false;        // A in registers
    bool transpose_a = false;    // A is MN-major in shared memory: [K, M] in global memory
    auto operator<=>(const WgmmaShapeKey&) const = default;
};

// Shapes of every matrix operation of the plan. InternalError where an operand is not a constant of the plan.
std::set<WgmmaShapeKey> wgmma_shapes(const Plan& plan);

// The header's text, the same for the same set. InternalError on a shape that the instruction does not have.
std::string wgmma_text(const std::set<WgmmaShapeKey>& shapes);

}  // namespace plait
