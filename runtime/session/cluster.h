// SimCluster: a Session of all ranks of a simulated cluster in one process, on the host machine. Deterministic: the
// same seed, artifact and inputs give the same interleaving. No global state; several may live at once.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/artifact/host_module.h"
#include "runtime/sim/report.h"
#include "runtime/topology/topology.h"
#include "templates/abi/host_engine.h"

namespace plait {

struct TensorView {
    void* data = nullptr;
    std::string dtype;                    // bf16 f16 f32
    std::vector<std::int64_t> shape;      // row-major
    std::int64_t pitch = 0;               // bytes from row to row of a matrix; 0: contiguous
};
using RankTensors = std::vector<TensorView>;   // in the manifest's order

HostModule open_shared_object(const std::string& path);   // AOT: symbol plait_kernel. DeviceError

class SimCluster {
public:
    SimCluster(const Topology& topology, const SimOptions& options);
    ~SimCluster();
    // Runs one launch on all ranks to the end. tensors: one entry a rank. ArgumentError: shapes or dtypes that do not
    // fit the manifest. StallError: nothing could move, deadlines passed, and the kernels left (role, tile or chunk, flag,
    // expected, seen; then every parked agent); all outputs are NaN then, and the cluster is dead.
    // InternalError is never used for what the kernel did wrong: a memory-order fault throws SimulationFault.
    LaunchReport launch(const Artifact& artifact, const HostModule& module, std::int64_t m,
                        const std::vector<RankTensors>& tensors);
    // The same with every rank's own M: ranks that disagree are told so.
    LaunchReport launch(const Artifact& artifact, const HostModule& module, const std::vector<std::int64_t>& m,
                        const std::vector<RankTensors>& tensors);
    std::uint64_t launches() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace plait
