// The part of CudaSession that says what went wrong, to the caller and to the peers.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/session/cuda_session.h"

namespace plait {
namespace {

// How long an agent that gives up may take to say why, and a kernel that has been told to leave to do so.
constexpr std::chrono::milliseconds kRecordTimeout{500}, kLeaveTimeout{1500};

}  // namespace

HostLines* CudaSession::lines() const { return reinterpret_cast<HostLines*>(pinned_->host()); }

bool CudaSession::host_aborted() const {
    return std::atomic_ref<u64>(lines()->abort).load(std::memory_order_acquire) != 0;
}

// DeviceState, then the Session's area of this rank's workspace, from `told` on.
CudaSession::Snapshot CudaSession::read_snapshot() {
    const u64 world = static_cast<u64>(place_.world);
    const u64 first = told_offset(world, 0), bytes = session_area_bytes(world) - first;
    const cu::DevicePointer mirror = pinned_->device() + layout_.mirror;
    check_driver(*driver_, driver_->copy_async(mirror, state_->get(), sizeof(DeviceState), control_->get()),
                 "reading the device state");
    check_driver(*driver_,
                 driver_->copy_async(mirror + sizeof(DeviceState), workspace_->base(place_.rank) + first, bytes,
                                     control_->get()),
                 "reading what peers told");
    control_->synchronize(fmt::format("rank {}: reading the device state (an earlier launch failed)", place_.rank));
    Snapshot seen;
    seen.told.resize(world);
    const unsigned char* from = pinned_->host() + layout_.mirror;
    std::memcpy(&seen.state, from, sizeof(DeviceState));
    seen.state.stall =
        placed_record(seen.state.stall, static_cast<u64>(place_.rank), workspace_->base(place_.rank), state_->get());
    std::memcpy(seen.told.data(), from + sizeof(DeviceState), world * sizeof(StallRecord));
    std::memcpy(&seen.told_by, from + sizeof(DeviceState) + world * sizeof(StallRecord), sizeof(u64));
    return seen;
}

bool CudaSession::given_up(const Snapshot& seen) const {
    return seen.state.abort != 0 || seen.told_by != 0 || host_aborted();
}

// The kernel leaves, then everything that it had to say is there. Of ranks that disagree each tells its own part.
CudaSession::Snapshot CudaSession::wait_for_record(Snapshot seen) {
    const auto started = std::chrono::steady_clock::now();
    const auto within = [&](auto timeout) { return std::chrono::steady_clock::now() - started < timeout; };
    while (driver_->event_query(chain_->get()) == cu::kErrorNotReady && within(kLeaveTimeout))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto complete = [](const Snapshot& s) {
        const StallRecord& record = s.state.stall;
        if (record.taken == 0) return true;  // no kernel was there to write one
        if (!is_filled(record)) return false;
        return record.cause != static_cast<u64>(AbortCause::Disagree) || is_filled(s.told[record.peer]);
    };
    for (seen = read_snapshot(); !complete(seen) && within(kLeaveTimeout + kRecordTimeout); seen = read_snapshot())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return seen;
}

StallRecord CudaSession::first_cause(const Snapshot& seen) const {
    if (is_filled(seen.state.stall)) return seen.state.stall;
    if (seen.told_by != 0 && seen.told_by <= seen.told.size() && is_filled(seen.told[seen.told_by - 1]))
        return seen.told[seen.told_by - 1];
    return host_record(place_.rank, AbortCause{std::atomic_ref<u64>(lines()->abort).load(std::memory_order_acquire)});
}

// For ranks that have no kernel of this one beside them, or whose relay never started: what spread_abort of
// templates/launch_watch.h does, from the host. Once; kernels that run see it within a poll of their relay.
void CudaSession::tell_peers(StallRecord record) {
    if (told_.exchange(true)) return;
    const u64 world = static_cast<u64>(place_.world), rank = static_cast<u64>(place_.rank);
    record.taken = kStallFilled;
    std::memcpy(pinned_->host() + layout_.record, &record, sizeof(record));
    for (int peer = 0; peer < place_.world; ++peer) {
        const cu::DevicePointer base = workspace_->base(peer);
        if (base == 0) continue;
        check_driver(*driver_,
                     driver_->copy_async(base + told_offset(world, rank), pinned_->device() + layout_.record,
                                         sizeof(record), control_->get()),
                     "telling a peer of the abort");
        if (peer == place_.rank) continue;
        check_driver(*driver_,
                     driver_->stream_write_value(control_->get(), base + abort_word_offset(world), 1 + rank,
                                                 cu::kWriteValueDefault),
                     "telling a peer of the abort");
    }
    control_->synchronize("telling peers of the abort");
    std::atomic_ref<u64>(lines()->told).store(1, std::memory_order_release);
}

void CudaSession::check() {
    const std::lock_guard lock(mutex_);
    const ContextScope current(*driver_, context_->get());
    check_locked();
}

void CudaSession::check_locked() {
    failure_.rethrow();
    const CaptureModeScope relaxed(*driver_, cu::CaptureMode::Relaxed);  // a thread that captures may ask as well
    Snapshot seen = read_snapshot();
    const bool network_failed = network_ && network_->failed();
    if (!given_up(seen) && !network_failed) return;
    raise_abort(lines(), network_failed ? AbortCause::Network : AbortCause::Host);
    seen = wait_for_record(seen);
    const StallRecord cause = first_cause(seen);
    tell_peers(cause);
    StallPlaces places = stall_places_of(options_, seen.told);
    for (const auto& program : programs_) places.areas.push_back({&program->manifest(), program->area_offset});
    failure_.keep(group_, [&] {
        if (network_failed) network_->check();
        throw_story(describe_stall(place_.rank, cause, places));
    });
}

// No lock: it must get past a call that waits.
void CudaSession::abort() {
    raise_abort(lines(), AbortCause::Host);
    const ContextScope current(*driver_, context_->get());
    const CaptureModeScope relaxed(*driver_, cu::CaptureMode::Relaxed);
    tell_peers(host_record(place_.rank, AbortCause::Host));
}

// The caller gets an exception, but for the tensors that it already holds. Best effort on a session that is dead.
void CudaSession::invalidate_outputs(const CudaProgram& program, const RankTensors& tensors,
                                     cu::Stream stream) noexcept {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!program.manifest().tensors[i].output) continue;
        spoil_tensor(tensors[i], [&](void* first, std::uint64_t bytes) {
            driver_->set_bytes_async(reinterpret_cast<cu::DevicePointer>(first), 0xff, bytes, stream);
        });
    }
}

}  // namespace plait
