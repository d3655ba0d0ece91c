#include "runtime/session/session_failure.h"

#include <atomic>

namespace plait {

void SessionFailure::rethrow() const {
    if (reason_) throw StallError(reason_->message(), reason_->hint());
}

void SessionFailure::keep(RankGroup& group, const std::function<void()>& reason) {
    try {
        reason();
    } catch (const Error& error) {
        reason_ = std::make_unique<StallError>(error.message(), error.hint());
        group.tell_failure(error.message());
        throw;
    }
}

void raise_abort(HostLines* lines, AbortCause cause) {
    u64 none = 0;
    std::atomic_ref<u64>(lines->abort).compare_exchange_strong(none, static_cast<u64>(cause));
}

bool is_filled(const StallRecord& record) { return record.taken >= kStallFilled; }

StallRecord host_record(int rank, AbortCause cause) {
    StallRecord record = {};
    record.taken = kStallFilled;
    record.cause = static_cast<u64>(cause);
    record.rank = static_cast<u64>(rank);
    return record;
}

StallPlaces stall_places_of(const SessionOptions& options, std::vector<StallRecord> told) {
    StallPlaces places;
    places.world = told.size();
    places.entry_deadline_ns = options.entry_deadline_ns;
    places.wait_deadline_ns = options.wait_deadline_ns;
    places.told = std::move(told);
    return places;
}

}  // namespace plait
