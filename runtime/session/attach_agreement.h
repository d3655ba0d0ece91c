// What attach does together: every rank loads, tells the others, and learns whether all hold the same artifact.
#pragma once
#include <cstdint>
#include <functional>

#include "runtime/artifact/artifact.h"
#include "runtime/session/rank_group.h"

namespace plait {

// Collective. `load` does this rank's part; what it throws is rethrown here and named on the others (DeviceError).
// ArgumentError where ranks attach different artifacts, or the same at different offsets of their workspaces.
void agree_on_artifact(RankGroup& group, const Manifest& manifest, std::uint64_t area,
                       const std::function<void()>& load);

}  // namespace plait
