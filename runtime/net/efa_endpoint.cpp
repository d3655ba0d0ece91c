#include "runtime/net/efa_endpoint.h"

#include <algorithm>
#include <cerrno>
#include <random>
#include <sstream>

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

constexpr char kVersion[] = "srd1";

}  // namespace

SrdMailboxes::SrdMailboxes(std::uint32_t world_size, std::uint32_t slot_count)
    : world(world_size), slots(slot_count), inbox(bytes() / sizeof(u64), 0), outbox(bytes() / sizeof(u64), 0) {}

SignalDescriptor* SrdMailboxes::table(unsigned char* box, std::uint32_t rank) const {
    return reinterpret_cast<SignalDescriptor*>(box + table_offset(rank));
}

u64* SrdMailboxes::credit(unsigned char* box, std::uint32_t rank) const {
    return reinterpret_cast<u64*>(box + credit_offset(rank));
}

std::string encode_peer(const SrdPeerInfo& info) {
    return fmt::format("{} {} {} {} {} {} {} {} {} {}", kVersion, gid_text(info.address.gid), info.queue_pair,
                       info.queue_key, info.workspace_address, info.workspace_bytes, info.workspace_key,
                       info.inbox_address, info.inbox_key, info.slots);
}

SrdPeerInfo decode_peer(const std::string& text, const std::string& from) {
    SrdPeerInfo info;
    std::string version, gid;
    std::istringstream in(text);
    in >> version >> gid >> info.queue_pair >> info.queue_key >> info.workspace_address >> info.workspace_bytes >>
        info.workspace_key >> info.inbox_address >> info.inbox_key >> info.slots;
    if (in.fail() || version != kVersion || !parse_gid(gid, &info.address.gid))
        throw TransportError(fmt::format("{} published an endpoint that this side cannot read: {}", from, text),
                             "do all ranks run the same version of plait?");
    return info;
}

SrdEndpoint::SrdEndpoint(std::shared_ptr<const VerbsApi> verbs, std::shared_ptr<const EfaApi> efa,
                         const SrdOptions& options)
    : options_(options),
      efa_(std::move(efa)),
      device_(VerbsDevice::open(std::move(verbs), options.device)),
      boxes_(options.world, options.slots) {
    check_capabilities();
    std::random_device entropy;
    queue_key_ = entropy() & 0x7fffffff;  // the top bit marks a privileged key
    workspace_ = device_->register_memory(options.workspace, true, options.dmabuf_fd);
    inbox_ = device_->register_memory({boxes_.inbox_base(), boxes_.bytes()}, true);
    outbox_ = device_->register_memory({boxes_.outbox_base(), boxes_.bytes()}, false);
    cq_ = device_->create_cq(static_cast<int>(options.send_depth + options.receive_depth));
    create_queue_pair();
    post_receives(options.receive_depth);
}

void SrdEndpoint::check_capabilities() {
    if (const int error = efa_->query_device(device_->context(), &capabilities_, sizeof(capabilities_)))
        throw_verbs_error("efadv_query_device", device_->name(), error, "is this an EFA device?");
    if (!(capabilities_.device_caps & kEfaCapsRdmaWrite))
        throw TransportError(
            fmt::format("nic {} does not offer RDMA write with immediate (capabilities {:#x})", device_->name(),
                        capabilities_.device_caps),
            "the device is of an older generation, or libefa is older than rdma-core 47 and cannot report it");
    if (options_.send_depth > capabilities_.max_sq_wr || options_.receive_depth > capabilities_.max_rq_wr)
        throw TransportError(
            fmt::format("queues of {} sends and {} receives on nic {}, which takes {} and {}", options_.send_depth,
                        options_.receive_depth, device_->name(), capabilities_.max_sq_wr, capabilities_.max_rq_wr),
            "use a smaller send_depth or receive_depth");
    max_message_bytes_ = std::min(
        {options_.max_message_bytes, std::uint64_t{capabilities_.max_rdma_size}, device_->max_message_bytes()});
    if (max_message_bytes_ < sizeof(SignalDescriptor))
        throw TransportError(
            fmt::format("nic {} writes at most {} bytes in a message", device_->name(), max_message_bytes_));
}

void SrdEndpoint::create_queue_pair() {
    ibv_qp_init_attr_ex attributes = {};
    attributes.qp_type = IBV_QPT_DRIVER;
    attributes.send_cq = attributes.recv_cq = cq_.get();
    attributes.cap.max_send_wr = options_.send_depth;
    attributes.cap.max_recv_wr = options_.receive_depth;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_recv_sge = 1;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.pd = device_->pd();
    attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    efadv_qp_init_attr srd = {};
    srd.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD;
    const VerbsApi* api = &device_->api();
    queue_pair_ = {efa_->create_qp_ex(device_->context(), &attributes, &srd, sizeof(srd)),
                   [api](ibv_qp* qp) { api->destroy_qp(qp); }};
    if (!queue_pair_)
        throw_verbs_error("efadv_create_qp_ex (SRD, write with immediate)", device_->name(), errno,
                          "EOPNOTSUPP here: libefa is older than rdma-core 47");
    ibv_qp_attr step = {};
    step.qp_state = IBV_QPS_INIT;
    step.port_num = device_->port();
    step.qkey = queue_key_;
    modify(step, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "INIT");
    step = {};
    step.qp_state = IBV_QPS_RTR;
    modify(step, IBV_QP_STATE, "RTR");
    step = {};
    step.qp_state = IBV_QPS_RTS;
    const bool rnr = capabilities_.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY;
    step.rnr_retry = 7;  // a receiver that posts receives late is not a failure
    modify(step, IBV_QP_STATE | IBV_QP_SQ_PSN | (rnr ? IBV_QP_RNR_RETRY : 0), "RTS");
}

void SrdEndpoint::modify(ibv_qp_attr attributes, int mask, const char* step) const {
    if (const int error = device_->api().modify_qp(queue_pair_.get(), &attributes, mask))
        throw_verbs_error(fmt::format("ibv_modify_qp to {} (rank {})", step, options_.rank), device_->name(), error);
}

SrdPeerInfo SrdEndpoint::own_info() const {
    return {device_->address(),
            queue_pair_->qp_num,
            queue_key_,
            reinterpret_cast<std::uint64_t>(options_.workspace.base),
            options_.workspace.bytes,
            reinterpret_cast<std::uint64_t>(boxes_.inbox.data()),
            workspace_->rkey,
            inbox_->rkey,
            options_.slots};
}

VerbsHandle<ibv_ah> SrdEndpoint::path_to(const SrdPeerInfo& peer, const std::string& who) const {
    ibv_ah_attr path = device_->path_to(peer.address);  // no LID in the address: goes by GID
    const VerbsApi* api = &device_->api();
    VerbsHandle<ibv_ah> handle{api->create_ah(device_->pd(), &path), [api](ibv_ah* ah) { api->destroy_ah(ah); }};
    if (!handle)
        throw_verbs_error(fmt::format("ibv_create_ah ({}, gid {})", who, gid_text(peer.address.gid)), device_->name(),
                          errno);
    return handle;
}

// A write with immediate takes one receive and puts nothing into it.
void SrdEndpoint::post_receives(std::uint32_t count) const {
    std::vector<ibv_recv_wr> receives(count);
    for (std::uint32_t index = 0; index < count; ++index)
        receives[index] = {kSrdReceiveId, index + 1 < count ? &receives[index + 1] : nullptr, nullptr, 0};
    if (count == 0) return;
    ibv_recv_wr* bad = nullptr;
    if (const int error = device_->api().post_recv(queue_pair_.get(), receives.data(), &bad))
        throw_verbs_error(fmt::format("ibv_post_recv of {} receives (rank {}, queue pair {})", count, options_.rank,
                                      queue_pair_->qp_num),
                          device_->name(), error);
}

}  // namespace plait
