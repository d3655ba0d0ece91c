// The part of CudaSession that launches.
#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/session/cuda_maps.h"
#include "runtime/session/cuda_session.h"

namespace plait {

Launch CudaSession::launch_of(const CudaProgram& program, std::int64_t m) const {
    const cu::DevicePointer pinned = pinned_->device();
    Launch launch = {};
    launch.state = reinterpret_cast<DeviceState*>(state_->get());
    launch.host = reinterpret_cast<HostLines*>(pinned);
    launch.fifo = reinterpret_cast<TransferCommand*>(pinned + layout_.fifo);
    launch.arrivals = reinterpret_cast<const Arrival*>(pinned + layout_.arrivals);
    for (int local = 0; local < place_.locals; ++local) {
        launch.workspace[local] = reinterpret_cast<u8*>(workspace_->base(place_.node * place_.locals + local));
    }
    launch.fifo_slots = options_.fifo_slots;
    launch.arrival_slots = options_.arrival_slots;
    launch.entry_deadline_ns = options_.entry_deadline_ns;
    launch.wait_deadline_ns = options_.wait_deadline_ns;
    launch.m = m;
    launch.rank = place_.rank, launch.world = place_.world;
    launch.node = place_.node, launch.nodes = place_.nodes;
    launch.local_rank = place_.local, launch.local_ranks = place_.locals;
    launch.artifact_offset = program.area_offset;
    return launch;
}

void CudaSession::launch(int artifact, std::int64_t m, const RankTensors& tensors, void* stream_handle) {
    const std::lock_guard lock(mutex_);
    if (artifact < 0 || artifact >= static_cast<int>(programs_.size())) {
        throw ArgumentError(
            fmt::format("artifact {} is not attached to this session, which has {}", artifact, programs_.size()),
            "attach it before the first launch, outside of any capture");
    }
    CudaProgram& program = *programs_[artifact];
    const auto stream = static_cast<cu::Stream>(stream_handle);
    const ContextScope current(*driver_, context_->get());
    if (failure_ || host_aborted() || (network_ && network_->failed())) {
        program.binder().check(m, tensors);
        invalidate_outputs(program, tensors, stream);
        check_locked();
    }
    const std::vector<unsigned char> args =
        program.binder().bind(launch_of(program, m), tensors,
                              [this](const MapRequest& request) { return encode_cuda_map(*driver_, request); });
    // A kernel that touches no state of the session needs no order; in a graph each event is a node and costs microseconds.
    const bool chained = program.manifest().session_state;
    cu::CaptureStatus capture = cu::CaptureStatus::None;
    if (chained) check_driver(*driver_, driver_->stream_is_capturing(stream, &capture), "asking whether the stream is being captured");
    const bool captured = capture != cu::CaptureStatus::None;
    // External: a graph's launch waits for what was recorded when the graph is launched, not when it was captured, so
    // that replays and plain launches form one chain.
    if (chained) {
        check_driver(*driver_, driver_->stream_wait_event(stream, chain_->get(), captured ? cu::kEventWaitExternal : 0),
                     "waiting for the session's previous launch");
    }
    program.launch(args, stream);
    unchained_launches_ = unchained_launches_ || !chained;
    if (chained) {
        check_driver(*driver_, driver_->event_record(chain_->get(), stream, captured ? cu::kEventRecordExternal : 0),
                     "recording the launch");
    }
    if (network_) network_->wake();
    ++launches_;
}

void CudaSession::poison_receive_buffers() {
    const std::lock_guard lock(mutex_);
    const ContextScope current(*driver_, context_->get());
    for (const auto& program : programs_) {
        if (program->manifest().receive_bytes == 0) continue;
        check_driver(*driver_,
                     driver_->set_bytes_async(workspace_->base(place_.rank) + program->area_offset, 0xff,
                                              program->manifest().receive_bytes, control_->get()),
                     "poisoning receive buffers");
    }
    check_driver(*driver_, driver_->stream_synchronize(control_->get()), "waiting for poisoned receive buffers");
}

std::uint64_t CudaSession::launches() const {
    const std::lock_guard lock(mutex_);
    return launches_;
}

}  // namespace plait
