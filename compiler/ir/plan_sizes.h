// Sizes that follow from a Plan.
#pragma once
#include <cstdint>

#include "compiler/ir/plan.h"

namespace plait {

// CTAs below which the plan cannot run: every role placed on SMs of its own, and one CTA, or cluster, that computes.
std::int64_t min_ctas(const Plan& plan);
// CTAs of a cluster, which start together and share operands: a const `cluster` of the plan, else 1. Launches have a multiple of it.
std::int64_t cluster_ctas(const Plan& plan);
// Shared memory of a CTA, laid out in order: shared arrays, then barriers of 8 bytes.
std::int64_t shared_memory_bytes(const Plan& plan);
// Workspace of each rank: buffers and flags (the Session's own flags stand outside).
std::uint64_t workspace_bytes(const Plan& plan);
// The largest M up to `m` that a launch may have: a const `m_multiple` of the plan restricts it.
std::int64_t legal_rows(const Plan& plan, std::int64_t m);
// Whether a launch touches the session's DeviceState (tile counter, epoch, flags, FIFO): such launches run one after another.
bool uses_session_state(const Plan& plan);
std::int64_t element_bytes(const std::string& dtype);  // InternalError on an unknown dtype

}  // namespace plait
