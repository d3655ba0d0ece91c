// Tensor maps of a launch, encoded for the TMA unit.
#pragma once
#include "runtime/device/driver.h"
#include "runtime/session/bind.h"

namespace plait {

// 128-byte swizzle, L2 promotion 128 bytes, zeros out of bounds. ArgumentError where TMA cannot take the tensor, naming
// the map and the rule (CUDA driver API, cuTensorMapEncodeTiled).
TensorMap encode_cuda_map(const Driver& driver, const MapRequest& request);

}  // namespace plait
