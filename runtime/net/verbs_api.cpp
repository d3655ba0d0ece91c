#include "runtime/net/verbs_api.h"

namespace plait {

std::shared_ptr<const VerbsApi> open_verbs(const std::string& path) {
    auto api = std::make_shared<VerbsApi>();
    api->library =
        std::make_shared<Library>(Library::open("RDMA transfers between nodes", {"libibverbs.so.1"}, path,
                                                "install rdma-core (libibverbs1), or choose another session"));
    const Library& library = *api->library;
    const auto bind = [&library]<class Result, class... Parameters>(std::function<Result(Parameters...)>& entry,
                                                                    const char* symbol) {
        entry = library.function<Result(Parameters...)>(symbol);
    };
    bind(api->get_device_list, "ibv_get_device_list");
    bind(api->free_device_list, "ibv_free_device_list");
    bind(api->get_device_name, "ibv_get_device_name");
    bind(api->open_device, "ibv_open_device");
    bind(api->close_device, "ibv_close_device");
    bind(api->query_device, "ibv_query_device");
    bind(api->query_port, "ibv_query_port");
    bind(api->alloc_pd, "ibv_alloc_pd");
    bind(api->dealloc_pd, "ibv_dealloc_pd");
    bind(api->reg_mr, "ibv_reg_mr");
    bind(api->reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
    bind(api->dereg_mr, "ibv_dereg_mr");
    bind(api->destroy_cq, "ibv_destroy_cq");
    bind(api->create_qp, "ibv_create_qp");
    bind(api->modify_qp, "ibv_modify_qp");
    bind(api->destroy_qp, "ibv_destroy_qp");
    bind(api->create_ah, "ibv_create_ah");
    bind(api->destroy_ah, "ibv_destroy_ah");
    bind(api->status_text, "ibv_wc_status_str");
    const auto create_cq = library.function<ibv_cq*(ibv_context*, int, void*, ibv_comp_channel*, int)>("ibv_create_cq");
    api->create_cq = [create_cq](ibv_context* context, int entries) {
        return create_cq(context, entries, nullptr, nullptr, 0);
    };
    const auto query_gid =
        library.function<int(ibv_context*, uint32_t, uint32_t, ibv_gid_entry*, uint32_t, size_t)>("_ibv_query_gid_ex");
    api->query_gid = [query_gid](ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry) {
        return query_gid(context, port, index, entry, 0, sizeof(*entry));
    };
    api->post_send = [](ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) { return ibv_post_send(qp, first, bad); };
    api->post_recv = [](ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad) { return ibv_post_recv(qp, first, bad); };
    api->poll_cq = [](ibv_cq* cq, int entries, ibv_wc* completions) { return ibv_poll_cq(cq, entries, completions); };
    return api;
}

}  // namespace plait
