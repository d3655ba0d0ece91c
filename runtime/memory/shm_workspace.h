// ShmWorkspace: memory that peers write, at the same offset of every rank's workspace, between processes of one machine.
//
// One memfd a rank, handed to the others over a unix socket: it has no name, so nothing is left behind however a rank
// ends, and a mapping keeps it alive for as long as a peer may write. Sized once and never moved; pages come when they
// are touched or committed. Sealed against a change of size: no peer can make another fault.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/memory/collective.h"
#include "runtime/memory/fd_channel.h"

namespace plait {

struct ShmWorkspaceOptions {
    int rank = 0;
    std::uint64_t bytes = 0;       // of each rank; the same on all
    std::uint64_t timeout_ns = 0;  // for descriptors of peers
};

class ShmWorkspace {
public:
    // Collective: maps the workspaces of all ranks. DeviceError, TransportError.
    ShmWorkspace(const ShmWorkspaceOptions& options, const AllGather& all_gather);
    ~ShmWorkspace();
    ShmWorkspace(const ShmWorkspace&) = delete;
    ShmWorkspace& operator=(const ShmWorkspace&) = delete;

    unsigned char* base(int rank) const { return bases_[rank]; }  // this process's mapping of `rank`'s workspace
    std::uint64_t bytes() const { return options_.bytes; }
    // Memory for the first `end` bytes of this rank's workspace, zero where it is new. DeviceError where the machine has
    // no more: a launch would die of SIGBUS there. ArgumentError beyond bytes().
    void commit(std::uint64_t end);

private:
    void release();
    void make_own();
    void map(int rank, int descriptor);

    ShmWorkspaceOptions options_;
    FdChannel channel_;
    FileDescriptor own_;
    std::vector<unsigned char*> bases_;
    std::uint64_t committed_ = 0;
};

}  // namespace plait
