#include "runtime/memory/vmm.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "runtime/base/error.h"

namespace plait {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Equal for threads of one process alone: the number of a process means something within its machine and PID namespace.
std::string process_identity() {
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    struct stat space = {};
    const unsigned long inode = stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
    return fmt::format("{}/{}/{}", boot, inode, getpid());
}

cu::MemoryProperties properties_of(const WorkspaceOptions& options) {
    cu::MemoryProperties properties = {};
    properties.type = cu::kAllocationPinned;
    properties.requested_handle_types = cu::kHandlePosixFileDescriptor;
    properties.location = {cu::kLocationDevice, options.device};
    properties.gpu_direct_rdma_capable = options.gpu_direct_rdma ? 1 : 0;
    return properties;
}

}  // namespace

// What one grow() has done so far; undone where it goes out of scope uncommitted.
struct SymmetricWorkspace::Growth {
    const Driver& driver;
    std::uint64_t offset = 0, bytes = 0;
    std::uint32_t tag = 0;
    cu::MemoryHandle own = 0;
    bool has_own = false, done = false;
    std::vector<Mapping> mappings;

    ~Growth() {
        if (!done) {
            for (const Mapping& mapping : mappings) driver.memory_unmap(mapping.pointer, mapping.bytes);
        }
        if (has_own) driver.memory_release(own);  // the mappings hold the memory
    }
};

SymmetricWorkspace::SymmetricWorkspace(std::shared_ptr<const Driver> driver, const WorkspaceOptions& options,
                                       AllGather all_gather)
    : driver_(std::move(driver)), options_(options), all_gather_(std::move(all_gather)) {
    const cu::MemoryProperties properties = properties_of(options_);
    std::size_t granularity = 0;
    check_driver(*driver_, driver_->memory_granularity(&granularity, &properties, cu::kGranularityMinimum),
                 "asking for the memory granularity");
    granularity_ = granularity;
    reserved_ = round_up(options_.reserve_bytes, granularity_);
    exchange_addresses(all_gather_);
    try {
        for (int rank : options_.mapped_ranks) {
            check_driver(*driver_, driver_->address_reserve(&peers_.at(rank).base, reserved_, granularity_, 0, 0),
                         fmt::format("reserving {} bytes of address space for rank {}'s workspace", reserved_, rank),
                         "lower workspace_bytes");
        }
    } catch (...) {
        release();
        throw;
    }
}

SymmetricWorkspace::~SymmetricWorkspace() { release(); }

void SymmetricWorkspace::release() {
    for (const Mapping& mapping : mappings_) driver_->memory_unmap(mapping.pointer, mapping.bytes);
    mappings_.clear();
    for (Peer& peer : peers_) {
        if (peer.base != 0) driver_->address_free(peer.base, reserved_);
        peer.base = 0;
    }
}

void SymmetricWorkspace::exchange_addresses(const AllGather& all_gather) {
    const std::string own = fmt::format("{} {} {} {}", granularity_, reserved_, process_identity(), channel_.address());
    const std::vector<std::string> replies = all_gather("workspace", own);
    const std::string sizes = fmt::format("{} {} ", granularity_, reserved_);
    for (std::size_t rank = 0; rank < replies.size(); ++rank) {
        const std::string& reply = replies[rank];
        if (reply.rfind(sizes, 0) != 0) {
            throw ArgumentError(
                fmt::format("rank {} reserves another workspace than rank {}: `{}` and `{}` (granularity, bytes)", rank,
                            options_.rank, reply.substr(0, reply.rfind(' ')), own.substr(0, own.rfind(' '))),
                "give every rank the same workspace_bytes");
        }
        const std::size_t space = reply.rfind(' ');
        peers_.push_back({reply.substr(sizes.size(), space - sizes.size()), reply.substr(space + 1), 0});
    }
}

cu::DevicePointer SymmetricWorkspace::base(int rank) const {
    const cu::DevicePointer base = rank >= 0 && rank < static_cast<int>(peers_.size()) ? peers_[rank].base : 0;
    if (base == 0)
        throw InternalError(fmt::format("rank {} has not mapped the workspace of rank {}", options_.rank, rank));
    return base;
}

void SymmetricWorkspace::grow(std::uint64_t bytes) {
    if (bytes <= committed_) return;
    if (bytes > reserved_) {
        throw ArgumentError(
            fmt::format("the workspace needs {} bytes, {} were reserved", bytes, reserved_),
            fmt::format("create the session with workspace_bytes of at least {}", round_up(bytes, granularity_)));
    }
    Growth growth{*driver_, committed_, round_up(bytes, granularity_) - committed_, growths_++};
    const std::string name = fmt::format("grow{}", growth.tag);
    const auto created = all_gather_(name + "/created", outcome_of([&] { return map_own(growth); }));
    throw_failures(created, "growing the workspace");
    const auto mapped = all_gather_(name + "/mapped", outcome_of([&] { return map_peers(growth, created); }));
    throw_failures(mapped, "mapping the peers' workspaces");
    growth.done = true;
    mappings_.insert(mappings_.end(), growth.mappings.begin(), growth.mappings.end());
    committed_ += growth.bytes;
}

void SymmetricWorkspace::map(cu::DevicePointer pointer, std::uint64_t bytes, cu::MemoryHandle handle,
                             std::vector<Mapping>& mappings) {
    check_driver(*driver_, driver_->memory_map(pointer, bytes, 0, handle, 0),
                 fmt::format("mapping {} bytes of workspace", bytes));
    mappings.push_back({pointer, bytes});
    const cu::MemoryAccess access = {{cu::kLocationDevice, options_.device}, cu::kAccessReadWrite};
    check_driver(*driver_, driver_->memory_set_access(pointer, bytes, &access, 1),
                 fmt::format("giving device {} access to workspace memory", options_.device),
                 "the GPUs of one node must reach each other over NVLink or PCIe peer access");
}

std::string SymmetricWorkspace::map_own(Growth& growth) {
    const cu::MemoryProperties properties = properties_of(options_);
    check_driver(*driver_, driver_->memory_create(&growth.own, growth.bytes, &properties, 0),
                 fmt::format("allocating {} bytes of workspace on device {}", growth.bytes, options_.device));
    growth.has_own = true;
    map(base(options_.rank) + growth.offset, growth.bytes, growth.own, growth.mappings);
    return fmt::format("{} {} {}", growth.offset, growth.bytes, growth.own);
}

std::string SymmetricWorkspace::map_peers(Growth& growth, const std::vector<std::string>& replies) {
    const std::string sizes = fmt::format("{} {} ", growth.offset, growth.bytes);
    std::vector<int> remote;
    for (int rank : options_.mapped_ranks) {
        if (replies[rank].rfind(sizes, 0) != 0) {
            throw InternalError(fmt::format("rank {} grew its workspace by `{}`, rank {} by `{}`", rank, replies[rank],
                                            options_.rank, sizes));
        }
        if (rank != options_.rank && peers_[rank].process != peers_[options_.rank].process) remote.push_back(rank);
    }
    if (!remote.empty()) {
        int exported = -1;
        check_driver(*driver_, driver_->memory_export(&exported, growth.own, cu::kHandlePosixFileDescriptor, 0),
                     "exporting workspace memory");
        const FileDescriptor descriptor(exported);
        for (int rank : remote) channel_.send(peers_[rank].address, options_.rank, growth.tag, descriptor.get());
    }
    for (int rank : options_.mapped_ranks) {
        if (rank == options_.rank || peers_[rank].process != peers_[options_.rank].process) continue;
        map(base(rank) + growth.offset, growth.bytes, std::stoull(replies[rank].substr(sizes.size())), growth.mappings);
    }
    while (!remote.empty()) {
        const FdChannel::Received received = channel_.receive(options_.timeout_ns);
        const auto sender = std::find(remote.begin(), remote.end(), static_cast<int>(received.sender));
        if (received.tag != growth.tag || sender == remote.end()) continue;  // of a growth that failed
        import_from(*sender, received.descriptor.get(), growth);
        remote.erase(sender);
    }
    return "mapped";
}

void SymmetricWorkspace::import_from(int rank, int descriptor, Growth& growth) {
    cu::MemoryHandle handle = 0;
    const auto shareable = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
    check_driver(*driver_, driver_->memory_import(&handle, shareable, cu::kHandlePosixFileDescriptor),
                 fmt::format("importing the workspace of rank {}", rank));
    try {
        map(base(rank) + growth.offset, growth.bytes, handle, growth.mappings);
    } catch (...) {
        driver_->memory_release(handle);
        throw;
    }
    driver_->memory_release(handle);
}

}  // namespace plait
