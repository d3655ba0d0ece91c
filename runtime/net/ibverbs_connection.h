// What two ends of an RC connection tell each other, and the states a queue pair goes through with it.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/net/verbs_device.h"

namespace plait {

struct RcEndpointInfo {
    VerbsAddress address;
    std::uint32_t queue_pair = 0, packet_sequence = 0;
    std::uint64_t workspace_address = 0, workspace_bytes = 0;
    std::uint32_t workspace_key = 0;  // remote key
};
// Text, one line; decode throws TransportError naming `from` where it is not one.
std::string encode_endpoint(const RcEndpointInfo& info);
RcEndpointInfo decode_endpoint(const std::string& text, const std::string& from);

struct RcTimeouts {
    std::uint8_t timeout, retry_count;
};
// RESET -> INIT -> RTR -> RTS (verbs: ibv_modify_qp(3)). TransportError naming the step.
void connect_queue_pair(const VerbsDevice& device, ibv_qp* queue_pair, const RcEndpointInfo& own,
                        const RcEndpointInfo& peer, const RcTimeouts& timeouts, const std::string& who);

}  // namespace plait
