// libibverbs as a table of functions: opened at run time, so that plait loads where the library is absent, and replaced
// by a fake one in tests. Calls that verbs.h defines inline (post, poll) are entries too: a fake then needs no driver.
#pragma once
#include <infiniband/verbs.h>

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/dl.h"

namespace plait {

struct VerbsApi {
    std::function<ibv_device**(int* count)> get_device_list;
    std::function<void(ibv_device** list)> free_device_list;
    std::function<const char*(ibv_device*)> get_device_name;
    std::function<ibv_context*(ibv_device*)> open_device;
    std::function<int(ibv_context*)> close_device;
    std::function<int(ibv_context*, ibv_device_attr*)> query_device;
    std::function<int(ibv_context*, uint8_t port, ibv_port_attr*)> query_port;
    std::function<int(ibv_context*, uint32_t port, uint32_t index, ibv_gid_entry*)> query_gid;
    std::function<ibv_pd*(ibv_context*)> alloc_pd;
    std::function<int(ibv_pd*)> dealloc_pd;
    std::function<ibv_mr*(ibv_pd*, void* base, size_t bytes, int access)> reg_mr;
    std::function<ibv_mr*(ibv_pd*, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access)> reg_dmabuf_mr;
    std::function<int(ibv_mr*)> dereg_mr;
    std::function<ibv_cq*(ibv_context*, int entries)> create_cq;
    std::function<int(ibv_cq*)> destroy_cq;
    std::function<ibv_qp*(ibv_pd*, ibv_qp_init_attr*)> create_qp;
    std::function<int(ibv_qp*, ibv_qp_attr*, int mask)> modify_qp;
    std::function<int(ibv_qp*)> destroy_qp;
    std::function<ibv_ah*(ibv_pd*, ibv_ah_attr*)> create_ah;
    std::function<int(ibv_ah*)> destroy_ah;
    std::function<int(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad)> post_send;
    std::function<int(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad)> post_recv;
    std::function<int(ibv_cq*, int entries, ibv_wc*)> poll_cq;
    std::function<const char*(ibv_wc_status)> status_text;
    std::shared_ptr<Library> library;  // holds the functions' code loaded
};

// `path`: the setting ibverbs_library, empty for the system's. DeviceError where the library or a function is missing.
std::shared_ptr<const VerbsApi> open_verbs(const std::string& path = "");

}  // namespace plait
