// Session: the live state of one rank: symmetric workspace, peers, FIFO, proxy, launch protocol. On a GPU, or on the
// host machine (create_on_host). Rank by rank (one process each) or several in one process, each with its own
// rendezvous endpoint. No global state.
//
// create and attach are collective, allocate, and may not run under stream capture or while a kernel that waits for
// this rank is running. launch does neither allocate nor synchronise; under capture it records the launch into the
// graph. The launches of a Session never overlap, whatever their streams; all ranks launch the same artifacts in the
// same order. A Session's calls may come from several threads, one at a time inside.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/artifact/host_module.h"
#include "runtime/device/driver.h"
#include "runtime/session/cluster.h"
#include "runtime/session/rendezvous.h"
#include "runtime/topology/topology.h"

namespace plait {

struct SessionOptions {
    int device = 0;                              // CUDA ordinal
    std::uint64_t workspace_bytes = 1ull << 30;  // address space per rank; grown on attach up to this
    int sm_budget = 0;                           // CTAs a launch may use; 0: all SMs
    int host_threads = 0;                        // on the host machine; 0: its cores divided by the ranks
    std::uint64_t entry_deadline_ns = 60'000'000'000ull, wait_deadline_ns = 10'000'000'000ull;
    NetworkContract network = NetworkContract::Ordered;     // of the loopback session between nodes
    std::uint64_t fifo_slots = 1024, arrival_slots = 1024;  // powers of two
    std::uint64_t rendezvous_timeout_ns =
        120'000'000'000ull;  // how long ranks wait for each other in create and attach
};

// Makes an artifact's host code callable: the JIT's loader, or open_shared_object for AOT code.
using HostLoader = std::function<HostModule(const Artifact&)>;

class Session {
public:
    // Collective over the world of the rendezvous. DeviceError, TransportError.
    static std::unique_ptr<Session> create(const Topology& topology, int rank, std::shared_ptr<Rendezvous> rendezvous,
                                           std::shared_ptr<const Driver> driver, const SessionOptions& options);
    // The same on the host machine: all ranks are processes (or threads) of one machine, workspaces in shared memory.
    // Its launches are over when launch() returns; what went wrong is thrown there as well as by check().
    static std::unique_ptr<Session> create_on_host(const Topology& topology, int rank,
                                                   std::shared_ptr<Rendezvous> rendezvous, HostLoader load,
                                                   const SessionOptions& options);
    virtual ~Session() = default;
    // Loads the code and gives the artifact its area of the workspace, on all ranks together. Returns a handle.
    virtual int attach(const Artifact& artifact) = 0;
    // Enqueues one launch on `stream` (a CUstream; nullptr on the host). On a GPU not finished on return. StallError where
    // the Session is dead.
    virtual void launch(int artifact, std::int64_t m, const RankTensors& tensors, void* stream) = 0;
    // Throws what went wrong in a launch, if anything did: StallError naming rank, role, flag, expected and seen.
    virtual void check() = 0;
    virtual void abort() = 0;
    // For tests: fills every receive buffer of this rank with bytes 0xff (NaN) and waits for it. No rank may have a launch
    // under way; a launch afterwards that reads what no peer has sent shows it.
    virtual void poison_receive_buffers() = 0;
    virtual std::uint64_t launches() const = 0;
};

}  // namespace plait
