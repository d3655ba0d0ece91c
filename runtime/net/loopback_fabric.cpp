#include "runtime/net/loopback_fabric.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/memory/fd_channel.h"

namespace plait {
namespace {

std::size_t fabric_bytes(std::uint32_t world) {
    if (world == 0) throw ArgumentError("a loopback fabric needs at least one rank");
    check_immediate_budget(world, kLoopbackSlots);
    return static_cast<std::size_t>(world) * world * sizeof(LoopbackChannel);
}

constexpr std::uint32_t kFabricTag = 0x66616272;

[[noreturn]] void shared_memory_failed(const char* call, std::size_t bytes) {
    throw TransportError(
        fmt::format("{} of the loopback fabric ({} bytes) failed: {}", call, bytes, std::strerror(errno)),
        "is there so much memory, or is there a limit on it");
}

// Fresh pages are zero, which is the fabric's initial state.
void* map(int descriptor, std::size_t bytes) {
    const int flags = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
    if (memory == MAP_FAILED) shared_memory_failed("mmap", bytes);
    return memory;
}

FileDescriptor make_memory(std::size_t bytes) {
    FileDescriptor memory(::memfd_create("plait-loopback", MFD_CLOEXEC));
    if (memory.get() < 0) shared_memory_failed("memfd_create", bytes);
    if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) shared_memory_failed("ftruncate", bytes);
    return memory;
}

std::string sent_key(std::uint32_t rank) { return fmt::format("loopback/sent/{}", rank); }
std::string address_key(std::uint32_t rank) { return fmt::format("loopback/address/{}", rank); }

}  // namespace

LoopbackFabric::LoopbackFabric(std::uint32_t world, void* memory, std::size_t bytes)
    : world_(world), channels_(static_cast<LoopbackChannel*>(memory)), bytes_(bytes) {}

LoopbackFabric::~LoopbackFabric() { ::munmap(channels_, bytes_); }

std::shared_ptr<LoopbackFabric> LoopbackFabric::in_process(std::uint32_t world) {
    const std::size_t bytes = fabric_bytes(world);
    return std::shared_ptr<LoopbackFabric>(new LoopbackFabric(world, map(-1, bytes), bytes));
}

std::shared_ptr<LoopbackFabric> LoopbackFabric::between_processes(std::uint32_t world, std::uint32_t rank,
                                                                  const Exchange& exchange) {
    const std::size_t bytes = fabric_bytes(world);
    if (rank >= world) throw ArgumentError(fmt::format("rank {} of a loopback fabric of {} ranks", rank, world));
    FdChannel channel;
    FileDescriptor memory;
    if (rank == 0) {
        memory = make_memory(bytes);
        for (std::uint32_t peer = 1; peer < world; ++peer) {
            channel.send(exchange.get(address_key(peer), exchange.timeout_ns), rank, kFabricTag, memory.get());
            exchange.set(sent_key(peer), "1");
        }
    } else {
        exchange.set(address_key(rank), channel.address());
        exchange.get(sent_key(rank), exchange.timeout_ns);  // waits where all waiting is: ranks may be threads that take turns
        FdChannel::Received received = channel.receive(exchange.timeout_ns);
        struct stat status = {};
        if (received.tag != kFabricTag || ::fstat(received.descriptor.get(), &status) != 0 ||
            static_cast<std::size_t>(status.st_size) != bytes)
            throw TransportError(fmt::format("rank {} sent a loopback fabric of {} bytes, expected {}", received.sender,
                                             status.st_size, bytes),
                                 "run the same plait on all ranks");
        memory = std::move(received.descriptor);
    }
    return std::shared_ptr<LoopbackFabric>(new LoopbackFabric(world, map(memory.get(), bytes), bytes));
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
