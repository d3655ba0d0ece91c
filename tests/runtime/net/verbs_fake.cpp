#include "tests/runtime/net/verbs_fake.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/net/verbs_device.h"

namespace plait::testing {

ibv_gid_entry gid_entry(std::uint32_t index, const std::string& hex, ibv_gid_type type) {
    ibv_gid_entry entry = {};
    parse_gid(hex, &entry.gid);
    entry.gid_index = index;
    entry.gid_type = type;
    return entry;
}

FakeVerbs::FakeVerbs(std::uint64_t seed) : seed_(seed) {
    port.state = IBV_PORT_ACTIVE;
    port.link_layer = IBV_LINK_LAYER_ETHERNET;
    port.active_mtu = IBV_MTU_4096;
    port.max_msg_sz = 1u << 30;
    port.gid_tbl_len = 2;
    gids = {gid_entry(0, "fe800000000000000000000000000001", IBV_GID_TYPE_ROCE_V2),
            gid_entry(1, "00000000000000000000ffff0a4d0001", IBV_GID_TYPE_ROCE_V2)};
    device.max_mr_size = 1ull << 40;
    device.max_cqe = 1 << 20;
}

bool FakeVerbs::failed(const char* call) {
    const int count = calls_[call]++;
    const auto failure = failures_.find(call);
    if (failure == failures_.end() || failure->second.first != count) return false;
    errno = failure->second.second;
    return true;
}

template <class Object>
Object* FakeVerbs::make(const char* kind) {
    if (failed(kind)) return nullptr;
    ++live_[kind];
    return new Object{};
}

std::map<std::string, int> FakeVerbs::live() const {
    std::map<std::string, int> left;
    for (const auto& [kind, count] : live_)
        if (count != 0) left[kind] = count;
    if (!registrations_.empty()) left["mr"] = static_cast<int>(registrations_.size());
    return left;
}

std::shared_ptr<const VerbsApi> FakeVerbs::verbs() {
    auto api = std::make_shared<VerbsApi>();
    fill_device(api.get());
    fill_memory(api.get());
    fill_queues(api.get());
    return api;
}

void FakeVerbs::fill_device(VerbsApi* api) {
    api->get_device_list = [this](int* count) {
        device_objects_.assign(devices.size(), ibv_device{});
        device_list_.clear();
        for (std::size_t index = 0; index < devices.size(); ++index) {
            std::strncpy(device_objects_[index].name, devices[index].c_str(), sizeof(device_objects_[index].name) - 1);
            device_list_.push_back(&device_objects_[index]);
        }
        *count = static_cast<int>(devices.size());
        ++live_["device list"];
        device_list_.push_back(nullptr);
        return device_list_.data();
    };
    api->free_device_list = [this](ibv_device**) { --live_["device list"]; };
    api->get_device_name = [](ibv_device* object) { return static_cast<const char*>(object->name); };
    api->open_device = [this](ibv_device*) { return make<ibv_context>("context"); };
    api->close_device = [this](ibv_context* context) {
        delete context;
        return --live_["context"], 0;
    };
    api->query_device = [this](ibv_context*, ibv_device_attr* out) {
        *out = device;
        return error_of("query_device");
    };
    api->query_port = [this](ibv_context*, uint8_t, ibv_port_attr* out) {
        *out = port;
        return error_of("query_port");
    };
    api->query_gid = [this](ibv_context*, uint32_t, uint32_t index, ibv_gid_entry* out) {
        if (index >= gids.size()) return ENODATA;
        *out = gids[index];
        return 0;
    };
    api->status_text = [](ibv_wc_status status) {
        return status == IBV_WC_REM_ACCESS_ERR  ? "remote access error"
               : status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded"
                                                : "other";
    };
}

void FakeVerbs::fill_memory(VerbsApi* api) {
    api->alloc_pd = [this](ibv_context*) { return make<ibv_pd>("pd"); };
    api->dealloc_pd = [this](ibv_pd* pd) {
        delete pd;
        return --live_["pd"], 0;
    };
    api->reg_mr = [this](ibv_pd*, void* base, size_t bytes, int access) {
        return make_registration(reinterpret_cast<std::uint64_t>(base), bytes, access, "reg_mr");
    };
    api->reg_dmabuf_mr = [this](ibv_pd*, uint64_t, size_t bytes, uint64_t iova, int fd, int access) {
        dmabuf_fds.push_back(fd);
        return make_registration(iova, bytes, access, "reg_dmabuf_mr");
    };
    api->dereg_mr = [this](ibv_mr* mr) { return registrations_.erase(mr->rkey), 0; };
    api->create_ah = [this](ibv_pd*, ibv_ah_attr*) { return make<ibv_ah>("ah"); };
    api->destroy_ah = [this](ibv_ah* ah) {
        delete ah;
        return --live_["ah"], 0;
    };
}

void FakeVerbs::fill_queues(VerbsApi* api) {
    api->create_cq = [this](ibv_context*, int) {
        ibv_cq* cq = make<ibv_cq>("cq");
        if (cq) completions_[cq] = {};
        return cq;
    };
    api->destroy_cq = [this](ibv_cq* cq) {
        for (const auto& [number, queue_pair] : queue_pairs_)
            if (queue_pair.send_cq == cq || queue_pair.recv_cq == cq) return EBUSY;
        completions_.erase(cq);
        delete cq;
        return --live_["cq"], 0;
    };
    api->create_qp = [this](ibv_pd*, ibv_qp_init_attr* attributes) {
        return failed("create_qp")
                   ? nullptr
                   : make_queue_pair(attributes->send_cq, attributes->recv_cq, NetworkContract::Ordered);
    };
    api->modify_qp = [this](ibv_qp* object, ibv_qp_attr* attributes, int mask) {
        if (const int error = error_of("modify_qp")) return error;
        QueuePair& queue_pair = queue_pairs_.at(object->qp_num);
        modified.push_back(*attributes);
        queue_pair.state = attributes->qp_state;
        if (mask & IBV_QP_DEST_QPN) queue_pair.peer = attributes->dest_qp_num;
        return 0;
    };
    api->destroy_qp = [this](ibv_qp* object) { return queue_pairs_.erase(object->qp_num), --live_["qp"], 0; };
    api->post_send = [this](ibv_qp* object, ibv_send_wr* first, ibv_send_wr** bad) {
        return post_chain(object, first, bad);
    };
    api->post_recv = [this](ibv_qp* object, ibv_recv_wr* first, ibv_recv_wr**) {
        for (; first; first = first->next) queue_pairs_.at(object->qp_num).receives.push_back(first->wr_id);
        return error_of("post_recv");
    };
    api->poll_cq = [this](ibv_cq* cq, int entries, ibv_wc* completions) { return poll(cq, entries, completions); };
}

ibv_qp* FakeVerbs::make_queue_pair(ibv_cq* send, ibv_cq* receive, NetworkContract delivery) {
    ++live_["qp"];
    const std::uint32_t number = next_number_++;
    QueuePair& queue_pair = queue_pairs_[number];
    queue_pair.object = std::make_unique<ibv_qp>();
    queue_pair.object->qp_num = number;
    queue_pair.send_cq = send;
    queue_pair.recv_cq = receive;
    LoopbackNicOptions options;
    options.delivery = delivery;
    options.seed = seed_ * 1000 + number;
    options.queue_depth = 1 << 16;
    options.packet_bytes = 128;
    queue_pair.nic = std::make_unique<LoopbackNic>(
        1, options, [this, number](std::uint32_t, std::uint32_t work) { return deliver(number, work); });
    return queue_pair.object.get();
}

ibv_mr* FakeVerbs::make_registration(std::uint64_t base, std::uint64_t bytes, int access, const char* call) {
    if (failed(call)) return nullptr;
    const std::uint32_t key = next_number_++;
    Registration& registration = registrations_[key];
    registration = {std::make_unique<ibv_mr>(), base, bytes, access};
    registration.object->lkey = registration.object->rkey = key;
    registered_access.push_back(access);
    return registration.object.get();
}

bool FakeVerbs::reachable(std::uint32_t key, std::uint64_t address, std::uint64_t bytes) const {
    const auto found = registrations_.find(key);
    return found != registrations_.end() && (found->second.access & IBV_ACCESS_REMOTE_WRITE) &&
           address >= found->second.base && address + bytes <= found->second.base + found->second.bytes;
}

int FakeVerbs::post_chain(ibv_qp* object, ibv_send_wr* first, ibv_send_wr** bad) {
    QueuePair& queue_pair = queue_pairs_.at(object->qp_num);
    ++doorbells;
    for (; first; first = first->next) {
        *bad = first;
        LoopbackWork bytes;
        bytes.destination = reinterpret_cast<unsigned char*>(first->wr.rdma.remote_addr);
        bytes.bytes = first->num_sge == 0 ? 0 : first->sg_list->length;
        if (first->num_sge == 0)
            bytes.source = bytes.destination;
        else if (first->send_flags & IBV_SEND_INLINE) {  // read now: the caller may reuse it
            bytes.flag = reinterpret_cast<u64*>(bytes.destination);
            std::memcpy(&bytes.flag_value, reinterpret_cast<void*>(first->sg_list->addr), sizeof(u64));
        } else {
            bytes.source = reinterpret_cast<const unsigned char*>(first->sg_list->addr);
        }
        const bool wants = first->send_flags & IBV_SEND_SIGNALED;
        if (const int error =
                post(queue_pair, {first->wr_id, wants, IBV_WC_SUCCESS, queue_pair.peer, 0}, bytes, first->wr.rdma.rkey))
            return error;
    }
    return 0;
}

int FakeVerbs::post(QueuePair& queue_pair, Work work, LoopbackWork bytes, std::uint32_t remote_key) {
    if (const int error = error_of("post")) return error;
    if (queue_pair.state != IBV_QPS_RTS) return EINVAL;
    if (refuse_every != 0 && ++posts_ % refuse_every == 0) return ENOMEM;
    if (provider_depth != 0 && queue_pair.works.size() - queue_pair.reclaimed >= provider_depth) return ENOMEM;
    ++work_requests;
    signalled += work.signalled;
    if (queue_pair.broken)
        work.status = IBV_WC_WR_FLUSH_ERR;
    else if (!reachable(remote_key, reinterpret_cast<std::uint64_t>(bytes.destination), bytes.bytes))
        work.status = IBV_WC_REM_ACCESS_ERR;
    if (work.status != IBV_WC_SUCCESS) {
        queue_pair.broken = true;
        bytes = {};  // moves nothing, completes in its turn
        static unsigned char nothing[1] = {};
        bytes.source = bytes.destination = nothing;
    }
    bytes.id = queue_pair.works.size();
    bytes.immediate = static_cast<std::uint32_t>(bytes.id);
    queue_pair.works.push_back(work);
    return queue_pair.nic->post(bytes) ? 0 : ENOMEM;
}

// A write with immediate takes a receive; without one it waits (RNR).
bool FakeVerbs::deliver(std::uint32_t number, std::uint32_t index) {
    const Work& work = queue_pairs_.at(number).works[index];
    const auto target = queue_pairs_.find(work.target);
    if (target == queue_pairs_.end()) return true;
    if (target->second.receives.empty()) return false;
    ibv_wc completion = {};
    completion.wr_id = target->second.receives.front();
    target->second.receives.pop_front();
    completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    completion.wc_flags = IBV_WC_WITH_IMM;
    completion.imm_data = work.immediate;
    completions_.at(target->second.recv_cq).push_back(completion);
    return true;
}

void FakeVerbs::progress() {
    for (auto& [number, queue_pair] : queue_pairs_) {
        std::vector<LoopbackCompletion> done;
        queue_pair.nic->progress(&done);
        for (const LoopbackCompletion& completion : done) {
            Work& work = queue_pair.works[completion.id];
            if (next_status_ != IBV_WC_SUCCESS) work.status = std::exchange(next_status_, IBV_WC_SUCCESS);
            if (!work.signalled && work.status == IBV_WC_SUCCESS) continue;
            queue_pair.reclaimed = completion.id + 1;
            ibv_wc out = {};
            out.wr_id = work.id;
            out.status = work.status;
            out.qp_num = number;
            out.vendor_err = work.status == IBV_WC_SUCCESS ? 0 : 0x81;
            completions_.at(queue_pair.send_cq).push_back(out);
        }
    }
}

int FakeVerbs::poll(ibv_cq* cq, int entries, ibv_wc* completions) {
    if (failed("poll_cq")) return -1;
    progress();
    std::deque<ibv_wc>& queue = completions_.at(cq);
    int count = 0;
    for (; count < entries && !queue.empty(); ++count) {
        completions[count] = queue.front();
        queue.pop_front();
    }
    return count;
}

#if defined(PLAIT_WITH_EFA)
std::shared_ptr<const EfaApi> FakeVerbs::efa() {
    auto api = std::make_shared<EfaApi>();
    api->query_device = [this](ibv_context*, efadv_device_attr* out, std::uint32_t) {
        out->max_sq_wr = out->max_rq_wr = 4096;
        out->max_sq_sge = out->max_rq_sge = 1;
        out->device_caps = efa_caps;
        out->max_rdma_size = efa_max_message;
        return error_of("efadv_query_device");
    };
    api->create_qp_ex = [this](ibv_context*, ibv_qp_init_attr_ex* attributes, efadv_qp_init_attr* srd,
                               std::uint32_t) -> ibv_qp* {
        if (failed("efadv_create_qp_ex") || srd->driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD) return nullptr;
        return make_queue_pair(attributes->send_cq, attributes->recv_cq, NetworkContract::Unordered);
    };
    api->write = [this](ibv_qp* object, const SrdWrite& write) {
        LoopbackWork bytes;
        bytes.source = reinterpret_cast<const unsigned char*>(write.local_address);
        bytes.destination = reinterpret_cast<unsigned char*>(write.remote_address);
        bytes.bytes = write.bytes;
        bytes.has_immediate = write.has_immediate;
        return post(queue_pairs_.at(object->qp_num),
                    {write.id, true, IBV_WC_SUCCESS, write.queue_pair, htonl(write.immediate)}, bytes,
                    write.remote_key);
    };
    return api;
}
#endif

}  // namespace plait::testing
