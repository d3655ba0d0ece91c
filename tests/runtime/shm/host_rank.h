// One rank of the hand-written ag_gemm (tests/runtime/sim/ag_gemm_kernel.h) on a Session of the host machine.
#pragma once
#include <memory>
#include <string>

#include "runtime/session/session.h"
#include "tests/runtime/sim/ag_gemm_case.h"

namespace plait::testing {

inline Topology host_cluster(int nodes, int locals) {
    Topology topology = Topology::simulated(std::to_string(nodes) + "x" + std::to_string(locals));
    topology.sms = 3;
    return topology;
}

inline SessionOptions host_options() {
    SessionOptions options;
    options.workspace_bytes = 4 << 20;
    options.entry_deadline_ns = options.wait_deadline_ns = 30'000'000'000ull;
    options.rendezvous_timeout_ns = 30'000'000'000ull;
    return options;
}

template <class S, Fault F = Fault::None>
class HostRank {
public:
    HostRank(int rank, std::shared_ptr<Rendezvous> rendezvous, const SessionOptions& options = host_options())
        : rank_(static_cast<std::size_t>(rank)) {
        session = Session::create_on_host(
            host_cluster(S::nodes, S::locals), rank, std::move(rendezvous),
            [](const Artifact&) { return HostModule{AgGemm<S, F>::entry, nullptr}; }, options);
        handle_ = session->attach(ag_gemm_artifact<S>());
    }

    // One launch on fresh inputs, the same on all ranks for the same seed, and outputs full of NaN. The largest error
    // of this rank's output over its tolerance.
    double launch(std::int64_t m, std::uint64_t seed) {
        Random random(seed);
        fill_case<S>(buffers, m, random);
        session->launch(handle_, m, tensors_of<S>(buffers)[rank_], nullptr);
        return worst_error_of_rank<S>(buffers, rank_, m);
    }

    std::unique_ptr<Session> session;
    std::vector<RankBuffers<S>> buffers;

private:
    std::size_t rank_;
    int handle_ = 0;
};

}  // namespace plait::testing
