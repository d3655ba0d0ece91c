// kernel_shapes.h: the instruction text that only the plan's shapes need, per machine.
#pragma once
#include <string>

#include "compiler/ir/plan.h"

namespace plait {

std::string kernel_shapes(const Plan& plan);

}  // namespace plait
