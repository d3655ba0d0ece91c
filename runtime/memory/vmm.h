// SymmetricWorkspace: memory that peers write, at the same offset of every rank's workspace (CUDA virtual memory).
//
// Address space is reserved once per mapped rank and never moves; memory is added at the end by grow(), by all ranks
// together. Each rank maps the memory of every rank it can address with rights for its own device: ranks of this
// process by handle, others by a descriptor that travels over a unix socket. A mapping keeps the memory alive, so
// what a peer still writes into a rank that is gone goes nowhere, and faults nobody.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/driver.h"
#include "runtime/memory/collective.h"
#include "runtime/memory/fd_channel.h"

namespace plait {

struct WorkspaceOptions {
    int rank = 0;
    std::vector<int> mapped_ranks;  // whose memory this rank addresses, itself included
    cu::Device device = 0;
    std::uint64_t reserve_bytes = 0;  // address space per rank
    std::uint64_t timeout_ns = 0;     // for descriptors of peers
    bool gpu_direct_rdma = false;
};

class SymmetricWorkspace {
public:
    // Collective. DeviceError, TransportError.
    SymmetricWorkspace(std::shared_ptr<const Driver> driver, const WorkspaceOptions& options, AllGather all_gather);
    ~SymmetricWorkspace();
    SymmetricWorkspace(const SymmetricWorkspace&) = delete;
    SymmetricWorkspace& operator=(const SymmetricWorkspace&) = delete;

    // Collective: memory for at least `bytes` on every rank. New memory is not zeroed. Where it fails on one rank it
    // fails on all, and the workspace is as before.
    void grow(std::uint64_t bytes);

    cu::DevicePointer base(int rank) const;  // this rank's mapping of `rank`'s workspace
    std::uint64_t committed() const { return committed_; }
    std::uint64_t reserved() const { return reserved_; }
    std::uint64_t granularity() const { return granularity_; }

private:
    struct Peer {
        std::string process, address;  // where it lives, where its channel listens
        cu::DevicePointer base = 0;    // 0: not mapped
    };
    struct Mapping {
        cu::DevicePointer pointer;
        std::uint64_t bytes;
    };
    struct Growth;

    void release();
    void exchange_addresses(const AllGather& all_gather);
    void map(cu::DevicePointer pointer, std::uint64_t bytes, cu::MemoryHandle handle, std::vector<Mapping>& mappings);
    std::string map_own(Growth& growth);
    std::string map_peers(Growth& growth, const std::vector<std::string>& replies);
    void import_from(int rank, int descriptor, Growth& growth);

    std::shared_ptr<const Driver> driver_;
    WorkspaceOptions options_;
    AllGather all_gather_;
    FdChannel channel_;
    std::vector<Peer> peers_;  // by rank
    std::vector<Mapping> mappings_;
    std::uint64_t granularity_ = 0, reserved_ = 0, committed_ = 0;
    std::uint32_t growths_ = 0;
};

}  // namespace plait
