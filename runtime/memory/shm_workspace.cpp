#include "runtime/memory/shm_workspace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace plait {
namespace {

constexpr std::uint32_t kWorkspaceTag = 0x73686d;

[[noreturn]] void fail(const std::string& what, int rank, std::uint64_t bytes) {
    throw DeviceError(
        fmt::format("rank {}: {} a workspace of {} bytes: {}", rank, what, bytes, std::strerror(errno)),
        "is there so much memory, or is there a limit on it; workspace_bytes sets the size");
}

}  // namespace

ShmWorkspace::ShmWorkspace(const ShmWorkspaceOptions& options, const AllGather& all_gather) : options_(options) {
    const std::vector<std::string> offers = all_gather("workspace", outcome_of([&] {
        make_own();
        return fmt::format("{} {}", options_.bytes, channel_.address());
    }));
    throw_failures(offers, "making the workspaces");
    const int world = static_cast<int>(offers.size());
    bases_.resize(offers.size(), nullptr);
    const std::string outcome = outcome_of([&] {
        map(options_.rank, own_.get());
        for (int rank = 0; rank < world; ++rank) {
            const std::size_t space = offers[rank].find(' ');
            if (std::stoull(offers[rank].substr(0, space)) != options_.bytes) {
                throw ArgumentError(fmt::format("rank {} has a workspace of {} bytes, rank {} of {}", rank,
                                                offers[rank].substr(0, space), options_.rank, options_.bytes),
                                    "give all ranks the same workspace_bytes");
            }
            if (rank == options_.rank) continue;
            channel_.send(offers[rank].substr(space + 1), static_cast<std::uint32_t>(options_.rank), kWorkspaceTag,
                          own_.get());
        }
        for (int peer = 1; peer < world; ++peer) {
            const FdChannel::Received received = channel_.receive(options_.timeout_ns);
            const int sender = static_cast<int>(received.sender);
            if (received.tag != kWorkspaceTag || sender < 0 || sender >= world || bases_[sender] != nullptr) {
                throw TransportError(fmt::format("an unexpected descriptor came from rank {}", sender));
            }
            map(sender, received.descriptor.get());
        }
        return std::string("mapped");
    });
    try {
        throw_failures(all_gather("mapped", outcome), "mapping the workspaces");
    } catch (...) {
        release();
        throw;
    }
}

ShmWorkspace::~ShmWorkspace() { release(); }

void ShmWorkspace::release() {
    for (unsigned char*& base : bases_) {
        if (base != nullptr) munmap(base, options_.bytes);
        base = nullptr;
    }
}

void ShmWorkspace::make_own() {
    own_ = FileDescriptor(memfd_create("plait-workspace", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (own_.get() < 0 || ftruncate(own_.get(), static_cast<off_t>(options_.bytes)) != 0 ||
        fcntl(own_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        fail("making", options_.rank, options_.bytes);
    }
}

void ShmWorkspace::map(int rank, int descriptor) {
    struct stat status = {};
    if (fstat(descriptor, &status) != 0 || static_cast<std::uint64_t>(status.st_size) != options_.bytes) {
        throw TransportError(fmt::format("the workspace of rank {} has {} bytes, expected {}", rank, status.st_size,
                                         options_.bytes));
    }
    void* memory =
        mmap(nullptr, options_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
    if (memory == MAP_FAILED) fail("mapping", rank, options_.bytes);
    bases_[rank] = static_cast<unsigned char*>(memory);
}

void ShmWorkspace::commit(std::uint64_t end) {
    if (end > options_.bytes) {
        throw ArgumentError(fmt::format("rank {}: the workspace would need {} bytes, {} are reserved", options_.rank,
                                        end, options_.bytes),
                            "raise workspace_bytes, or compile for a smaller M");
    }
    if (end <= committed_) return;
    while (fallocate(own_.get(), 0, static_cast<off_t>(committed_), static_cast<off_t>(end - committed_)) != 0) {
        if (errno != EINTR) fail("committing", options_.rank, end);
    }
    committed_ = end;
}

}  // namespace plait
