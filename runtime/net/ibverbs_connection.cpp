#include "runtime/net/ibverbs_connection.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr char kVersion[] = "rc1";
constexpr std::uint32_t kPacketSequenceMask = 0xffffff;  // 24 bits

void modify(const VerbsDevice& device, ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask, const char* step,
            const std::string& who) {
    if (const int error = device.api().modify_qp(queue_pair, attributes, mask))
        throw_verbs_error(fmt::format("ibv_modify_qp to {} ({})", step, who), device.name(), error,
                          "ENOSPC or EINVAL here: no route between the two GIDs; choose another gid_index");
}

}  // namespace

std::string encode_endpoint(const RcEndpointInfo& info) {
    return fmt::format("{} {} {} {} {} {} {} {} {}", kVersion, info.address.lid, info.address.mtu,
                       gid_text(info.address.gid), info.queue_pair, info.packet_sequence, info.workspace_address,
                       info.workspace_bytes, info.workspace_key);
}

RcEndpointInfo decode_endpoint(const std::string& text, const std::string& from) {
    RcEndpointInfo info;
    std::string version, gid;
    std::istringstream in(text);
    in >> version >> info.address.lid >> info.address.mtu >> gid >> info.queue_pair >> info.packet_sequence >>
        info.workspace_address >> info.workspace_bytes >> info.workspace_key;
    if (in.fail() || version != kVersion || !parse_gid(gid, &info.address.gid))
        throw TransportError(fmt::format("{} published an endpoint that this side cannot read: {}", from, text),
                             "do all ranks run the same version of plait?");
    return info;
}

void connect_queue_pair(const VerbsDevice& device, ibv_qp* queue_pair, const RcEndpointInfo& own,
                        const RcEndpointInfo& peer, const RcTimeouts& timeouts, const std::string& who) {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = device.port();
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;  // no read, no atomics
    modify(device, queue_pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
           "INIT", who);

    attributes = {};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = static_cast<ibv_mtu>(std::min(own.address.mtu, peer.address.mtu));
    attributes.dest_qp_num = peer.queue_pair;
    attributes.rq_psn = peer.packet_sequence & kPacketSequenceMask;
    attributes.max_dest_rd_atomic = 0;
    attributes.min_rnr_timer = 12;  // 0.64 ms; unused, nothing is received
    attributes.ah_attr = device.path_to(peer.address);
    modify(device, queue_pair, &attributes,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
               IBV_QP_MIN_RNR_TIMER,
           "RTR", who);

    attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = timeouts.timeout;
    attributes.retry_cnt = timeouts.retry_count;
    attributes.rnr_retry = 0;
    attributes.sq_psn = own.packet_sequence & kPacketSequenceMask;
    attributes.max_rd_atomic = 0;
    modify(
        device, queue_pair, &attributes,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
        "RTS", who);
}

}  // namespace plait
