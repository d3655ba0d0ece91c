// The EFA-only calls as a table of functions, beside VerbsApi: libefa opened at run time, or a fake.
//
// Headers differ: rdma-core 44 (Debian 12) has efadv_create_qp_ex but no name for the RDMA-write capability, which came
// with 47. The bit belongs to the provider's ABI, so plait names it itself; a libefa that does not know the bit never
// reports it, and the session then refuses with that reason.
#pragma once
#include <infiniband/efadv.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/net/verbs_api.h"

namespace plait {

inline constexpr std::uint32_t kEfaCapsRdmaWrite = 1u << 3;  // EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE
#if defined(PLAIT_EFADV_RDMA_WRITE)
static_assert(kEfaCapsRdmaWrite == EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE);
#endif
static_assert(EFADV_QP_DRIVER_TYPE_SRD == 0 && EFADV_DEVICE_ATTR_CAPS_RNR_RETRY == 1 << 1);

// One work request of an SRD queue pair: an RDMA write to one of many peers.
struct SrdWrite {
    std::uint64_t id = 0;
    ibv_ah* path = nullptr;
    std::uint32_t queue_pair = 0, queue_key = 0;
    std::uint64_t remote_address = 0, local_address = 0;
    std::uint32_t remote_key = 0, local_key = 0, bytes = 0;
    bool has_immediate = false;
    std::uint32_t immediate = 0;  // host byte order
};

struct EfaApi {
    std::function<int(ibv_context*, efadv_device_attr*, std::uint32_t bytes)> query_device;
    std::function<ibv_qp*(ibv_context*, ibv_qp_init_attr_ex*, efadv_qp_init_attr*, std::uint32_t bytes)> create_qp_ex;
    // ibv_wr_start to ibv_wr_complete; an errno, 0 where it was posted.
    std::function<int(ibv_qp*, const SrdWrite&)> write;
    std::shared_ptr<Library> library, verbs_library;
};

// Paths: the settings efa_library and ibverbs_library, empty for the system's. DeviceError where a library or a
// function is missing.
std::shared_ptr<const EfaApi> open_efa(const std::string& path = "", const std::string& verbs_path = "");

}  // namespace plait
