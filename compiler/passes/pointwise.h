// The pointwise ops behind a product: one map over the accumulator.
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/fused_pattern.h"
#include "compiler/passes/block.h"

namespace plait {

// row, col: origin of the accumulator `acc` in the output. Nothing where no op is left.
void lower_pointwise(Block& b, const std::vector<PointwiseOp>& ops, const std::string& acc, const std::string& row,
                     const std::string& col);

}  // namespace plait
