// The real MemoryPort: words by std::atomic_ref, records by memcpy. A record is read only after its sequence word was
// acquired and written only before its count is released, so the copies themselves need no atomicity.
#include <atomic>
#include <cstring>

#include "runtime/net/proxy_session.h"

namespace plait {
namespace {

class HostMemoryPort final : public MemoryPort {
public:
    u64 load_acquire(const u64* word) override {
        return std::atomic_ref<u64>(*const_cast<u64*>(word)).load(std::memory_order_acquire);
    }
    void store_release(u64* word, u64 value) override {
        std::atomic_ref<u64>(*word).store(value, std::memory_order_release);
    }
    void read(void* destination, const void* source, std::uint64_t bytes) override {
        std::memcpy(destination, source, bytes);
    }
    void write(void* destination, const void* source, std::uint64_t bytes) override {
        std::memcpy(destination, source, bytes);
    }
};

}  // namespace

std::unique_ptr<MemoryPort> make_host_memory_port() { return std::make_unique<HostMemoryPort>(); }

}  // namespace plait
