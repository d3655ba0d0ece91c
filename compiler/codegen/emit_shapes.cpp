#include "compiler/codegen/emit_shapes.h"

#include "compiler/codegen/wgmma_text.h"

namespace plait {

std::string kernel_shapes(const Plan& plan) {
    if (plan.target == "host")
        return "// The host machine's operations take every shape: nothing to generate.\n#pragma once\n";
    return wgmma_text(wgmma_shapes(plan));
}

}  // namespace plait
