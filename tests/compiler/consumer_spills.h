// ptxas says nothing of a kernel but, at most, that one-thread agents spill (compiler/backend/nvrtc_spills.h).
#pragma once
#include <gtest/gtest.h>

#include "compiler/backend/nvrtc_compiler.h"
#include "compiler/backend/nvrtc_spills.h"
#include "compiler/codegen/emit.h"

namespace plait::testing {

inline void expect_only_thread_agents_spill(const Plan& plan) {
    const CubinResult result = compile_cubin(emit(plan));
    for (const std::string& message : result.report.messages) {
        EXPECT_NE(message.find("Registers are spilled"), std::string::npos) << message;
    }
    if (result.report.spill_bytes != 0)
        EXPECT_EQ(warpgroup_spill_bytes(plan), 0) << "of " << result.report.spill_bytes;
}

}  // namespace plait::testing
