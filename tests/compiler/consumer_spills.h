// Who spills: ptxas accounts for a kernel as a whole. Without the programs of its one-thread agents a kernel must spill
// nothing; what it spills with them (at most kMaxSpillBytes, compile_cubin refuses more) is theirs.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/backend/nvrtc_compiler.h"
#include "compiler/codegen/emit.h"

namespace plait::testing {

inline std::int64_t warpgroup_spill_bytes(Plan plan) {
    for (const AgentDef& agent : plan.agents) {
        if (agent.kind != AgentKind::Thread) continue;
        for (ProgramDef& program : plan.programs) {
            if (std::find(agent.programs.begin(), agent.programs.end(), program.name) != agent.programs.end())
                program.body.clear();
        }
    }
    return compile_cubin(emit(plan)).report.spill_bytes;
}

inline void expect_only_thread_agents_spill(const Plan& plan) {
    const CubinResult result = compile_cubin(emit(plan));
    for (const std::string& message : result.report.messages) {
        EXPECT_NE(message.find("Registers are spilled"), std::string::npos) << message;
    }
    if (result.report.spill_bytes != 0) EXPECT_EQ(warpgroup_spill_bytes(plan), 0) << "of " << result.report.spill_bytes;
}

}  // namespace plait::testing
