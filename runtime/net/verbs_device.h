// One port of one verbs device, as RC and SRD sessions both need it: context, protection domain, port state, GID, MTU,
// memory registration. Every object frees itself; nothing outlives the device it came from.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/put_check.h"
#include "runtime/net/verbs_api.h"

namespace plait {

template <class Object>
using VerbsHandle = std::unique_ptr<Object, std::function<void(Object*)>>;

struct VerbsDeviceOptions {
    std::string name;  // "mlx5_0"; empty: the only device there is
    std::uint8_t port = 1;
    int gid_index = -1;  // -1: choose
};

// How a peer reaches this port.
struct VerbsAddress {
    std::uint32_t lid = 0, mtu = 0;  // mtu: enum ibv_mtu
    ibv_gid gid = {};
};

class VerbsDevice {
public:
    // TransportError: no such device (the names there are), port not active, no usable GID.
    static std::shared_ptr<VerbsDevice> open(std::shared_ptr<const VerbsApi> api, const VerbsDeviceOptions& options);

    const VerbsApi& api() const { return *api_; }
    ibv_context* context() const { return context_.get(); }
    ibv_pd* pd() const { return pd_.get(); }
    const ibv_device_attr& attributes() const { return attributes_; }
    const std::string& name() const { return name_; }
    std::uint8_t port() const { return port_; }
    int gid_index() const { return gid_index_; }
    bool ethernet() const { return ethernet_; }
    std::uint64_t max_message_bytes() const { return max_message_bytes_; }
    const VerbsAddress& address() const { return address_; }

    // `remote_write`: peers may write here. Never with relaxed ordering: a flag in this memory must not be visible
    // before the payload written ahead of it (PCIe ordering rules; ibv_reg_mr(3), IBV_ACCESS_RELAXED_ORDERING).
    // dmabuf_fd >= 0: GPU memory, exported as a dma-buf that begins at `region.base`.
    VerbsHandle<ibv_mr> register_memory(const MemoryRegion& region, bool remote_write, int dmabuf_fd = -1) const;
    VerbsHandle<ibv_cq> create_cq(int entries) const;
    // An address handle or a path: GRH on Ethernet and wherever a GID was asked for, LID otherwise.
    ibv_ah_attr path_to(const VerbsAddress& peer) const;

private:
    VerbsDevice() = default;
    void open_by_name(const VerbsDeviceOptions& options);
    void query_port();
    void choose_gid(int wanted);

    std::shared_ptr<const VerbsApi> api_;
    std::string name_;
    std::uint8_t port_ = 1;
    int gid_index_ = 0, gid_table_length_ = 0;
    bool ethernet_ = false;
    std::uint64_t max_message_bytes_ = 0;
    VerbsAddress address_;
    ibv_device_attr attributes_ = {};
    VerbsHandle<ibv_context> context_;
    VerbsHandle<ibv_pd> pd_;  // after context_: destroyed first
};

// A GID as 32 hexadecimal digits, and back; false where the text is not one.
std::string gid_text(const ibv_gid& gid);
bool parse_gid(const std::string& text, ibv_gid* gid);
[[noreturn]] void throw_verbs_error(const std::string& call, const std::string& nic, int error,
                                    const std::string& hint = "");

}  // namespace plait
