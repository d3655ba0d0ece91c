// Words for a StallRecord: who waited, for what, and what was seen; or which value broke its promise.
#pragma once
#include <string>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "templates/abi/kernel_args.h"

namespace plait {

struct StallArea {  // an artifact's part of the workspace
    const Manifest* manifest = nullptr;
    std::uint64_t offset = 0;
};
// Addresses that a waited-for word may lie in, as the kernel sees them.
struct StallPlaces {
    std::uint64_t workspace = 0, workspace_bytes = 0;  // this rank's own
    std::uint64_t state = 0;                           // DeviceState
    std::vector<StallArea> areas;
    const Manifest* last_launched = nullptr;  // whose sites count for words outside every area
};
std::string describe_stall(int rank, const StallRecord& stall, const StallPlaces& places);
// StallError of a wait, ArgumentError of a value in one of the caller's lists.
[[noreturn]] void throw_stall(int rank, const StallRecord& stall, const StallPlaces& places);

}  // namespace plait
