#include "runtime/net/efa_api.h"

#include <arpa/inet.h>

namespace plait {
namespace {

// verbs: ibv_wr_post(3). Setters follow the operation they belong to.
int post_write(ibv_qp_ex* queue_pair, const SrdWrite& write) {
    ibv_wr_start(queue_pair);
    queue_pair->wr_id = write.id;
    queue_pair->wr_flags = IBV_SEND_SIGNALED;  // completions come in any order, so each request needs its own
    if (write.has_immediate)
        ibv_wr_rdma_write_imm(queue_pair, write.remote_key, write.remote_address, htonl(write.immediate));
    else
        ibv_wr_rdma_write(queue_pair, write.remote_key, write.remote_address);
    ibv_wr_set_sge(queue_pair, write.local_key, write.local_address, write.bytes);
    ibv_wr_set_ud_addr(queue_pair, write.path, write.queue_pair, write.queue_key);
    return ibv_wr_complete(queue_pair);
}

}  // namespace

std::shared_ptr<const EfaApi> open_efa(const std::string& path, const std::string& verbs_path) {
    auto api = std::make_shared<EfaApi>();
    const std::string hint = "install rdma-core (ibverbs-providers), or choose another session";
    api->library = std::make_shared<Library>(Library::open("transfers on EFA", {"libefa.so.1"}, path, hint));
    api->verbs_library =
        std::make_shared<Library>(Library::open("transfers on EFA", {"libibverbs.so.1"}, verbs_path, hint));
    api->query_device =
        api->library->function<int(ibv_context*, efadv_device_attr*, std::uint32_t)>("efadv_query_device");
    api->create_qp_ex =
        api->library->function<ibv_qp*(ibv_context*, ibv_qp_init_attr_ex*, efadv_qp_init_attr*, std::uint32_t)>(
            "efadv_create_qp_ex");
    const auto extended = api->verbs_library->function<ibv_qp_ex*(ibv_qp*)>("ibv_qp_to_qp_ex");
    api->write = [extended](ibv_qp* queue_pair, const SrdWrite& write) {
        return post_write(extended(queue_pair), write);
    };
    return api;
}

}  // namespace plait
