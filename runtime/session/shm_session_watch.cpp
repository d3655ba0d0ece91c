// The part of ShmSession that says what went wrong, to the caller and to the peers. Words of the workspaces are everybody's;
// DeviceState is this process's own, and still while no launch runs.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "runtime/session/shm_session.h"

namespace plait {
namespace {

// How long another rank may take to say its part of a disagreement.
constexpr std::chrono::milliseconds kRecordTimeout{500};

u64 load(const void* word) {
    return std::atomic_ref<u64>(*static_cast<u64*>(const_cast<void*>(word))).load(std::memory_order_acquire);
}

// `taken` first, acquire: what it announces is there.
StallRecord read_record(const void* from) {
    StallRecord record = {};
    const u64* words = static_cast<const u64*>(from);
    u64* to = &record.taken;
    for (u32 word = 0; word < kStallWords; ++word) to[word] = load(words + word);
    return record;
}

void write_record(void* to, const StallRecord& record) {
    u64* words = static_cast<u64*>(to);
    const u64* from = &record.taken;
    for (u32 word = 1; word < kStallWords; ++word)
        std::atomic_ref<u64>(words[word]).store(from[word], std::memory_order_relaxed);
    std::atomic_ref<u64>(words[0]).store(kStallFilled, std::memory_order_release);
}

}  // namespace

bool ShmSession::given_up() const {
    const u64 world = static_cast<u64>(place_.world);
    return failure_ || load(&state_->abort) != 0 || load(&lines_->abort) != 0 ||
           load(workspace_->base(place_.rank) + abort_word_offset(world)) != 0 || (network_ && network_->failed());
}

std::vector<StallRecord> ShmSession::told() const {
    const u64 world = static_cast<u64>(place_.world);
    std::vector<StallRecord> records;
    for (u64 rank = 0; rank < world; ++rank)
        records.push_back(read_record(workspace_->base(place_.rank) + told_offset(world, rank)));
    return records;
}

StallRecord ShmSession::own_record() const {
    return placed_record(read_record(&state_->stall), static_cast<u64>(place_.rank),
                         reinterpret_cast<u64>(workspace_->base(place_.rank)), reinterpret_cast<u64>(state_.get()));
}

StallRecord ShmSession::first_cause() const {
    if (const StallRecord own = own_record(); is_filled(own)) return own;
    const std::vector<StallRecord> all = told();
    const u64 by = load(workspace_->base(place_.rank) + abort_word_offset(all.size()));
    if (by != 0 && by <= all.size() && is_filled(all[by - 1])) return all[by - 1];
    return host_record(place_.rank, AbortCause{load(&lines_->abort)});
}

// Of ranks that disagree each tells what it launched itself.
void ShmSession::wait_for_the_others_part() const {
    const StallRecord own = own_record();
    if (!is_filled(own) || own.cause != static_cast<u64>(AbortCause::Disagree)) return;
    const auto until = std::chrono::steady_clock::now() + kRecordTimeout;
    while (!is_filled(told()[own.peer]) && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// For ranks that have no kernel running: what spread_abort of templates/launch_watch.h does, from the host. Once.
void ShmSession::tell_peers(StallRecord record) {
    if (told_.exchange(true)) return;
    const u64 world = static_cast<u64>(place_.world), rank = static_cast<u64>(place_.rank);
    for (int peer = 0; peer < place_.world; ++peer) {
        unsigned char* base = workspace_->base(peer);
        write_record(base + told_offset(world, rank), record);
        if (peer == place_.rank) continue;
        std::atomic_ref<u64>(*reinterpret_cast<u64*>(base + abort_word_offset(world)))
            .store(1 + rank, std::memory_order_release);
    }
    std::atomic_ref<u64>(lines_->told).store(1, std::memory_order_release);
}

void ShmSession::check() {
    const std::lock_guard lock(mutex_);
    check_locked();
}

void ShmSession::check_locked() {
    failure_.rethrow();
    if (!given_up()) return;
    const bool network_failed = network_ && network_->failed();
    raise_abort(lines_.get(), network_failed ? AbortCause::Network : AbortCause::Host);
    wait_for_the_others_part();
    const StallRecord cause = first_cause();
    tell_peers(cause);
    StallPlaces places = stall_places_of(options_, told());
    for (const auto& program : programs_) places.areas.push_back({&program->manifest, program->area_offset});
    failure_.keep(group_, [&] {
        if (network_failed) network_->check();
        throw_story(describe_stall(place_.rank, cause, places));
    });
}

// No lock: it must get past a launch that waits.
void ShmSession::abort() {
    raise_abort(lines_.get(), AbortCause::Host);
    tell_peers(host_record(place_.rank, AbortCause::Host));
}

}  // namespace plait
