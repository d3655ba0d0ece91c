// The part of ShmSession that launches and watches.
#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/session/aligned_args.h"
#include "runtime/session/shm_session.h"

namespace plait {
namespace {

std::uint64_t bytes_of(const TensorView& tensor) {
    std::uint64_t bytes = tensor.dtype == "f32" ? 4 : 2;
    for (std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
    return bytes;
}

}  // namespace

Launch ShmSession::launch_of(const Program& program, std::int64_t m) {
    Launch launch = {};
    launch.state = state_.get();
    launch.host = lines_.get();
    launch.fifo = fifo_.data();
    launch.arrivals = arrivals_.data();
    for (int local = 0; local < place_.locals; ++local)
        launch.workspace[local] = workspace_->base(place_.node * place_.locals + local);
    launch.fifo_slots = fifo_.size();
    launch.arrival_slots = arrivals_.size();
    launch.entry_deadline_ns = options_.entry_deadline_ns;
    launch.wait_deadline_ns = options_.wait_deadline_ns;
    launch.m = m;
    launch.rank = place_.rank, launch.world = place_.world;
    launch.node = place_.node, launch.nodes = place_.nodes;
    launch.local_rank = place_.local, launch.local_ranks = place_.locals;
    launch.artifact_offset = program.area_offset;
    return launch;
}

void ShmSession::launch(int artifact, std::int64_t m, const RankTensors& tensors, void* stream) {
    const std::lock_guard lock(mutex_);
    if (stream != nullptr) throw ArgumentError("a session on CPUs has no streams", "pass none");
    if (artifact < 0 || artifact >= static_cast<int>(programs_.size())) {
        throw ArgumentError(
            fmt::format("artifact {} is not attached to this session, which has {}", artifact, programs_.size()),
            "attach it before the first launch");
    }
    refuse_if_dead();
    const Program& program = *programs_[artifact];
    run(program, launch_of(program, m), tensors);
}

void ShmSession::run(const Program& program, const Launch& launch, const RankTensors& tensors) {
    const AlignedArgs args(bind_arguments(program.manifest, launch, place_, tensors, encode_host_map));
    ShmLaunch work;
    work.kernel = program.module.kernel;
    work.args = args.data();
    work.launch = &launch;
    work.agents = program.manifest.agents;
    work.shared_bytes = static_cast<std::uint64_t>(program.manifest.shared_bytes);
    work.ctas = static_cast<std::uint32_t>(options_.sm_budget > 0 ? options_.sm_budget : topology_.sms);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!program.manifest.tensors[i].output)
            work.inputs.push_back({static_cast<const unsigned char*>(tensors[i].data), bytes_of(tensors[i])});
    }
    last_launched_ = &program;
    ++launches_;
    const auto spoil_outputs = [&] {  // all bits set is a NaN of every dtype
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            if (program.manifest.tensors[i].output) std::memset(tensors[i].data, 0xff, bytes_of(tensors[i]));
        }
    };
    try {
        engine_.run(work);
    } catch (...) {
        abort();
        spoil_outputs();
        throw;
    }
    if (!aborted()) return;
    spoil_outputs();
    if (network_) network_->check();
    throw_stall();
}

bool ShmSession::aborted() const {
    return std::atomic_ref<u64>(state_->abort).load(std::memory_order_acquire) != 0 ||
           std::atomic_ref<u64>(lines_->abort).load(std::memory_order_acquire) != 0;
}

void ShmSession::throw_stall() const {
    if (state_->stall.taken == 0)
        throw StallError(fmt::format("rank {}: the session was aborted", place_.rank), "make a new session");
    StallPlaces places;
    places.workspace = reinterpret_cast<std::uint64_t>(workspace_->base(place_.rank));
    places.workspace_bytes = next_area_;
    places.state = reinterpret_cast<std::uint64_t>(state_.get());
    for (const auto& program : programs_) places.areas.push_back({&program->manifest, program->area_offset});
    places.last_launched = last_launched_ != nullptr ? &last_launched_->manifest : nullptr;
    throw StallError(describe_stall(place_.rank, state_->stall, places),
                     "the outputs are NaN; results since then are not valid; make a new session");
}

void ShmSession::refuse_if_dead() const {
    if (network_) network_->check();
    if (aborted()) throw_stall();
}

void ShmSession::check() {
    const std::lock_guard lock(mutex_);
    refuse_if_dead();
}

// No lock: it must get past a launch that waits.
void ShmSession::abort() { std::atomic_ref<u64>(lines_->abort).store(1, std::memory_order_release); }

void ShmSession::poison_receive_buffers() {
    const std::lock_guard lock(mutex_);
    for (const auto& program : programs_)
        std::memset(workspace_->base(place_.rank) + program->area_offset, 0xff, program->manifest.receive_bytes);
}

std::uint64_t ShmSession::launches() const {
    const std::lock_guard lock(mutex_);
    return launches_;
}

}  // namespace plait
