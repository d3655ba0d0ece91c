#include "runtime/net/loopback_fabric.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

std::size_t fabric_bytes(std::uint32_t world) {
    if (world == 0) throw ArgumentError("a loopback fabric needs at least one rank");
    check_immediate_budget(world, kLoopbackSlots);
    return static_cast<std::size_t>(world) * world * sizeof(LoopbackChannel);
}

[[noreturn]] void shared_memory_failed(const char* call, const std::string& name, std::size_t bytes) {
    const int error = errno;
    throw TransportError(
        fmt::format("{} of the loopback fabric {} ({} bytes) failed: {}", call, name, bytes, std::strerror(error)),
        "is /dev/shm mounted, large enough and shared by all ranks of the host?");
}

// Fresh pages are zero, which is the fabric's initial state.
void* map(int descriptor, std::size_t bytes, const std::string& name) {
    const int flags = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
    if (memory == MAP_FAILED) shared_memory_failed("mmap", name, bytes);
    return memory;
}

struct Descriptor {
    int value;
    ~Descriptor() {
        if (value >= 0) ::close(value);
    }
};
struct Unlink {
    std::string name;
    ~Unlink() {
        if (!name.empty()) ::shm_unlink(name.c_str());
    }
};

}  // namespace

LoopbackFabric::LoopbackFabric(std::uint32_t world, void* memory, std::size_t bytes)
    : world_(world), channels_(static_cast<LoopbackChannel*>(memory)), bytes_(bytes) {}

LoopbackFabric::~LoopbackFabric() { ::munmap(channels_, bytes_); }

std::shared_ptr<LoopbackFabric> LoopbackFabric::in_process(std::uint32_t world) {
    const std::size_t bytes = fabric_bytes(world);
    return std::shared_ptr<LoopbackFabric>(new LoopbackFabric(world, map(-1, bytes, "in this process"), bytes));
}

std::shared_ptr<LoopbackFabric> LoopbackFabric::between_processes(std::uint32_t world, std::uint32_t rank,
                                                                  const Exchange& exchange) {
    const std::size_t bytes = fabric_bytes(world);
    if (rank >= world) throw ArgumentError(fmt::format("rank {} of a loopback fabric of {} ranks", rank, world));
    Unlink unlink;
    std::string name;
    if (rank == 0) {
        std::random_device entropy;
        name = fmt::format("/plait-{}-{:08x}{:08x}", ::getpid(), entropy(), entropy());
    } else {
        name = exchange.get("loopback/fabric", exchange.timeout_ns);
    }
    Descriptor file{::shm_open(name.c_str(), rank == 0 ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600)};
    if (file.value < 0) shared_memory_failed("shm_open", name, bytes);
    if (rank == 0) {
        unlink.name = name;
        if (::ftruncate(file.value, static_cast<off_t>(bytes)) != 0) shared_memory_failed("ftruncate", name, bytes);
    }
    std::shared_ptr<LoopbackFabric> fabric(new LoopbackFabric(world, map(file.value, bytes, name), bytes));
    if (rank == 0) {
        exchange.set("loopback/fabric", name);
        for (std::uint32_t peer = 1; peer < world; ++peer)
            exchange.get(fmt::format("loopback/mapped/{}", peer), exchange.timeout_ns);
    } else {
        exchange.set(fmt::format("loopback/mapped/{}", rank), "1");
    }
    return fabric;
}

bool LoopbackFabric::send(std::uint32_t receiver, std::uint32_t sender, const MailboxEntry& entry) {
    LoopbackChannel& box = channel(receiver, sender);
    const u64 posted = std::atomic_ref<u64>(box.posted).load(std::memory_order_relaxed);
    if (posted - std::atomic_ref<u64>(box.taken).load(std::memory_order_acquire) >= kMailboxEntries) return false;
    box.ring[posted % kMailboxEntries] = entry;
    std::atomic_ref<u64>(box.posted).store(posted + 1, std::memory_order_release);
    return true;
}

std::optional<MailboxEntry> LoopbackFabric::receive(std::uint32_t receiver, std::uint32_t sender) {
    LoopbackChannel& box = channel(receiver, sender);
    const u64 taken = std::atomic_ref<u64>(box.taken).load(std::memory_order_relaxed);
    if (std::atomic_ref<u64>(box.posted).load(std::memory_order_acquire) == taken) return std::nullopt;
    const MailboxEntry entry = box.ring[taken % kMailboxEntries];
    std::atomic_ref<u64>(box.taken).store(taken + 1, std::memory_order_release);
    return entry;
}

}  // namespace plait
