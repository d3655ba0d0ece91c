// What every session checks before it posts, and how every session words a failure.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/net/proxy_session.h"

namespace plait {

struct MemoryRegion {
    unsigned char* base = nullptr;
    std::uint64_t bytes = 0;
};

// TransportError where the source leaves the sender's workspace, or payload or flag leave the destination's, or the
// flag is not on its 8-byte boundary. Nothing is posted for such a command: a NIC would answer with a broken queue
// pair.
void check_put(const PutRequest& request, std::uint64_t world, std::uint64_t source_bytes,
               std::uint64_t destination_bytes, const std::string& session);

// Everything a person needs to find the broken connection.
struct FailedPut {
    std::uint64_t id = 0;  // ~0: no put, the session's own traffic
    std::uint32_t rank = 0, peer = 0;
    std::string nic;
    std::uint32_t queue_pair = 0;
    std::string status;
};
[[noreturn]] void throw_failed_put(const FailedPut& failed);

}  // namespace plait
