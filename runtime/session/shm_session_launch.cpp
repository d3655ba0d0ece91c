// The part of ShmSession that launches.
#include <fmt/format.h>

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/session/aligned_args.h"
#include "runtime/session/shm_session.h"

namespace plait {
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
    const Program& program = *programs_[artifact];
    ArgumentBinder binder(program.manifest, place_);
    binder.check(m, tensors);
    if (given_up()) {
        spoil_outputs(program, tensors);  // the caller gets an exception, but for the tensors that it already holds
        check_locked();
    }
    run(program, launch_of(program, m), tensors, binder);
}

void ShmSession::run(const Program& program, const Launch& launch, const RankTensors& tensors, ArgumentBinder& binder) {
    const AlignedArgs args(binder.bind(launch, tensors, encode_host_map));
    ShmLaunch work;
    work.kernel = program.module.kernel;
    work.args = args.data();
    work.launch = &launch;
    work.agents = program.manifest.agents;
    work.shared_bytes = static_cast<std::uint64_t>(program.manifest.shared_bytes);
    work.cluster = static_cast<std::uint32_t>(program.manifest.cluster);
    work.ctas = static_cast<std::uint32_t>(options_.sm_budget > 0 ? options_.sm_budget : topology_.sms) / work.cluster *
                work.cluster;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!program.manifest.tensors[i].output)
            work.inputs.push_back({static_cast<const unsigned char*>(tensors[i].data), bytes_spanned(tensors[i])});
    }
    ++launches_;
    try {
        engine_.run(work);
    } catch (const Error& error) {  // the kernel itself is wrong: no agent of it said so
        spoil_outputs(program, tensors);
        abort();
        failure_.keep(group_, [&] { throw StallError(error.message(), error.hint()); });
    }
    if (!given_up()) return;
    spoil_outputs(program, tensors);
    check_locked();
}

void ShmSession::spoil_outputs(const Program& program, const RankTensors& tensors) const {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!program.manifest.tensors[i].output) continue;
        spoil_tensor(tensors[i], [](void* first, std::uint64_t bytes) { std::memset(first, 0xff, bytes); });
    }
}

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
