// CudaSession: Session on a GPU, see session.h. One mutex: a call holds it from begin to end.
//
// Memory: DeviceState in device memory, zeroed once; HostLines, FIFO, arrival ring, a mirror of DeviceState and of what
// peers told, and a record to tell them in one pinned block; what peers write in the symmetric workspace, whose first
// lines are the Session's own area (templates/abi/kernel_args.h).
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device/cuda_resources.h"
#include "runtime/memory/vmm.h"
#include "runtime/base/error.h"
#include "runtime/session/cuda_network.h"
#include "runtime/session/cuda_program.h"
#include "runtime/session/rank_group.h"
#include "runtime/session/rank_hello.h"
#include "runtime/session/session.h"
#include "runtime/session/session_failure.h"

namespace plait {

class CudaSession final : public Session {
public:
    // With `context` current in this thread.
    CudaSession(const Topology& topology, int rank, std::shared_ptr<Rendezvous> rendezvous,
                std::shared_ptr<const Driver> driver, std::shared_ptr<PrimaryContext> context,
                const SessionOptions& options);
    ~CudaSession() override;

    int attach(const Artifact& artifact) override;
    void launch(int artifact, std::int64_t m, const RankTensors& tensors, void* stream) override;
    void check() override;
    void abort() override;
    void poison_receive_buffers() override;
    std::uint64_t launches() const override;

private:
    // The pinned block: HostLines, FIFO, arrivals, mirror, record, each from a page of its own.
    struct PinnedLayout {
        std::uint64_t fifo, arrivals, mirror, record, bytes;
        PinnedLayout(const SessionOptions& options, int world);
    };
    // What the GPU knows of an abort, read beside a running kernel.
    struct Snapshot {
        DeviceState state;
        std::vector<StallRecord> told;  // by rank
        std::uint64_t told_by = 0;
    };

    void check_device() const;
    void meet();
    void make_workspace();
    void make_rings();
    void make_network();
    void zero(cu::DevicePointer first, std::uint64_t bytes, const std::string& what);
    AllGather all_gather();
    Launch launch_of(const CudaProgram& program, std::int64_t m) const;
    void check_locked();
    Snapshot read_snapshot();
    bool given_up(const Snapshot& seen) const;
    Snapshot wait_for_record(Snapshot seen);
    StallRecord first_cause(const Snapshot& seen) const;
    void tell_peers(StallRecord record);
    void invalidate_outputs(const CudaProgram& program, const RankTensors& tensors, cu::Stream stream) noexcept;
    HostLines* lines() const;
    bool host_aborted() const;

    Topology topology_;
    RankPlace place_;
    SessionOptions options_;
    PinnedLayout layout_;
    std::shared_ptr<const Driver> driver_;
    std::shared_ptr<PrimaryContext> context_;  // released last
    RankGroup group_;
    CtaBudget budget_;
    // In order of creation; destroyed in the reverse order.
    std::unique_ptr<PrivateStream> control_;  // memsets and reads of DeviceState, beside running kernels
    // Recorded after each launch that touches state_, waited for before the next.
    std::unique_ptr<OrderingEvent> chain_;
    bool unchained_launches_ = false;         // of kernels that touch no state
    std::unique_ptr<SymmetricWorkspace> workspace_;
    std::unique_ptr<DeviceMemory> state_;
    std::unique_ptr<PinnedMemory> pinned_;
    std::unique_ptr<CudaNetwork> network_;  // none within one node
    std::vector<std::unique_ptr<CudaProgram>> programs_;
    std::uint64_t next_area_ = 0;
    std::uint64_t launches_ = 0;
    std::atomic<bool> told_{false};  // peers have been told of this rank's abort
    SessionFailure failure_;
    mutable std::mutex mutex_;
};

}  // namespace plait
