// ShmSession: Session of one rank that is a process on the host machine, see session.h. Workspaces in shared memory
// (runtime/memory/shm_workspace.h), kernels on the engine of runtime/shm.
//
// A launch is over when the call returns, and throws what went wrong in it; its outputs are filled with NaN then, and
// the Session is dead, on all ranks: who finds out tells the others. DeviceState, HostLines and rings belong to this process alone: peers reach the workspace only.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/memory/shm_workspace.h"
#include "runtime/session/argument_binder.h"
#include "runtime/session/rank_group.h"
#include "runtime/session/rank_hello.h"
#include "runtime/session/session.h"
#include "runtime/session/session_failure.h"
#include "runtime/session/shm_network.h"
#include "runtime/shm/engine.h"

namespace plait {

class ShmSession final : public Session {
public:
    ShmSession(const Topology& topology, int rank, std::shared_ptr<Rendezvous> rendezvous, HostLoader load,
               const SessionOptions& options);
    ~ShmSession() override;

    int attach(const Artifact& artifact) override;
    void launch(int artifact, std::int64_t m, const RankTensors& tensors, void* stream) override;
    void check() override;
    void abort() override;
    void poison_receive_buffers() override;
    std::uint64_t launches() const override;

private:
    struct Program {
        Manifest manifest;
        HostModule module;
        std::uint64_t area_offset = 0;
    };

    void meet();
    void make_network();
    Launch launch_of(const Program& program, std::int64_t m);
    Program load_program(const Artifact& artifact) const;
    void run(const Program& program, const Launch& launch, const RankTensors& tensors, ArgumentBinder& binder);
    void spoil_outputs(const Program& program, const RankTensors& tensors) const;
    void check_locked();
    bool given_up() const;
    std::vector<StallRecord> told() const;  // by rank
    StallRecord own_record() const;
    StallRecord first_cause() const;
    void wait_for_the_others_part() const;
    void tell_peers(StallRecord record);

    Topology topology_;
    RankPlace place_;
    SessionOptions options_;
    HostLoader load_;
    RankGroup group_;
    ShmEngine engine_;
    std::unique_ptr<ShmWorkspace> workspace_;
    std::unique_ptr<DeviceState> state_;
    std::unique_ptr<HostLines> lines_;
    std::vector<TransferCommand> fifo_;
    std::vector<Arrival> arrivals_;
    std::unique_ptr<ShmNetwork> network_;  // none within one node; uses all of the above
    std::vector<std::unique_ptr<Program>> programs_;
    std::uint64_t next_area_ = 0;
    std::uint64_t launches_ = 0;
    std::atomic<bool> told_{false};  // peers have been told of this rank's abort
    SessionFailure failure_;
    mutable std::mutex mutex_;
};

}  // namespace plait
