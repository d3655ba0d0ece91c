// Words for a StallRecord: who found what, in which launch, and what to do.
#pragma once
#include <string>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "templates/abi/kernel_args.h"

namespace plait {

struct StallArea {  // an artifact's part of the workspace, the same on all ranks
    const Manifest* manifest = nullptr;
    std::uint64_t offset = 0;
};
struct StallPlaces {
    std::uint64_t world = 1;
    std::vector<StallArea> areas;
    std::uint64_t entry_deadline_ns = 0, wait_deadline_ns = 0;
    std::vector<StallRecord> told;  // by rank: what each one has told of, where it has
};
// The record of a rank's own DeviceState, as `told` would have it: its flag may still be an address of that rank.
StallRecord placed_record(StallRecord record, std::uint64_t rank, std::uint64_t workspace, std::uint64_t state);

struct StallStory {
    std::string message, hint;
};
// As rank `rank` tells it. The record may be another rank's: the first cause, handed on.
StallStory describe_stall(int rank, const StallRecord& record, const StallPlaces& places);

}  // namespace plait
