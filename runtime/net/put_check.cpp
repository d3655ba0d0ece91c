#include "runtime/net/put_check.h"

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "templates/abi/flag.h"

namespace plait {
namespace {

// Written so that no sum can wrap.
bool inside(std::uint64_t offset, std::uint64_t bytes, std::uint64_t size) {
    return bytes <= size && offset <= size - bytes;
}

[[noreturn]] void leaves(const PutRequest& request, const char* what, std::uint64_t offset, std::uint64_t bytes,
                         std::uint64_t size, const std::string& session) {
    throw TransportError(fmt::format("put {} to rank {}: {} at {} of {} bytes leaves the workspace of {} bytes: {}",
                                     request.id, request.destination_rank, what, offset, bytes, size, session));
}

}  // namespace

void check_put(const PutRequest& request, std::uint64_t world, std::uint64_t source_bytes,
               std::uint64_t destination_bytes, const std::string& session) {
    if (request.destination_rank >= world)
        throw TransportError(
            fmt::format("put {} names rank {} of {}: {}", request.id, request.destination_rank, world, session));
    if (!inside(request.source_offset, request.bytes, source_bytes))
        leaves(request, "source", request.source_offset, request.bytes, source_bytes, session);
    if (!inside(request.destination_offset, request.bytes, destination_bytes))
        leaves(request, "destination", request.destination_offset, request.bytes, destination_bytes, session);
    if (!inside(request.signal_offset, kFlagBytes, destination_bytes))
        leaves(request, "flag", request.signal_offset, kFlagBytes, destination_bytes, session);
    if (request.signal_offset % kFlagBytes != 0)
        throw TransportError(fmt::format("put {} to rank {}: flag at {} is not on an {}-byte boundary: {}", request.id,
                                         request.destination_rank, request.signal_offset, kFlagBytes, session));
}

void throw_failed_put(const FailedPut& failed) {
    const std::string what = failed.id == ~0ull ? "connection" : fmt::format("put {}", failed.id);
    throw TransportError(fmt::format("{} of rank {} to rank {} failed: nic {}, queue pair {}, status {}", what,
                                     failed.rank, failed.peer, failed.nic, failed.queue_pair, failed.status),
                         "the peer may have ended or its link may be down; make a new Session");
}

}  // namespace plait
