// Whose registers spill. ptxas accounts for a kernel as a whole; who it is shows in kernels from which the other
// agents' programs are left out. They are compiled only where a kernel spills.
#pragma once
#include <cstdint>

#include "compiler/backend/ptxas_log.h"
#include "compiler/ir/plan.h"

namespace plait {

inline constexpr std::int64_t kMaxSpillBytes = 96;  // of a kernel, all of them of its one-thread agents
// What loaders of the shipped kernels spill at most. Whose so few bytes are is not asked: the answer is a second compilation,
// and attention's would take four seconds instead of two. Tests ask for every shipped schedule.
inline constexpr std::int64_t kUnaskedSpillBytes = 60;

// What the plan's kernel spills without its one-thread agents.
std::int64_t warpgroup_spill_bytes(const Plan& plan);

// CompileError: a kernel spills more than kUnaskedSpillBytes, and a warpgroup is among those who do, or the kernel spills
// more than kMaxSpillBytes. It names the agents and their bytes.
void check_spills(const Plan& plan, const PtxasReport& report);

}  // namespace plait
