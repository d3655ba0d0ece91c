// How a Session on real ranks dies: the first reason is kept, told to the ranks that may yet meet this one, and thrown
// again by every later call. Shared by CudaSession and ShmSession.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/session/rank_group.h"
#include "runtime/session/session.h"
#include "runtime/session/stall_report.h"
#include "templates/abi/kernel_args.h"

namespace plait {

class SessionFailure {
public:
    explicit operator bool() const { return reason_ != nullptr; }
    void rethrow() const;  // StallError; returns where there is no reason
    // Throws what `reason` throws, which becomes the Session's.
    void keep(RankGroup& group, const std::function<void()>& reason);

private:
    std::unique_ptr<StallError> reason_;
};

// The first cause stays.
void raise_abort(HostLines* lines, AbortCause cause);
bool is_filled(const StallRecord& record);
// What the host of `rank` has to say where no kernel of it found anything.
StallRecord host_record(int rank, AbortCause cause);
// But for the areas. told: by rank.
StallPlaces stall_places_of(const SessionOptions& options, std::vector<StallRecord> told);

}  // namespace plait
