#include "runtime/net/verbs_device.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {
namespace {

// Which GIDs are worth using on Ethernet: RoCE v2 alone is routable, a link-local address is not, and a table holds
// IPv4-mapped entries where the interface has an IPv4 address.
int gid_rank(const ibv_gid_entry& entry) {
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) return 0;
    const unsigned char* raw = entry.gid.raw;
    static constexpr unsigned char kIpv4Mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (std::memcmp(raw, kIpv4Mapped, sizeof(kIpv4Mapped)) == 0) return 3;
    const bool link_local = raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
    return link_local ? 1 : 2;
}

bool is_zero(const ibv_gid& gid) {
    for (unsigned char byte : gid.raw)
        if (byte != 0) return false;
    return true;
}

const char* port_state_text(ibv_port_state state) {
    switch (state) {
        case IBV_PORT_NOP:
            return "nop";
        case IBV_PORT_DOWN:
            return "down";
        case IBV_PORT_INIT:
            return "init";
        case IBV_PORT_ARMED:
            return "armed";
        case IBV_PORT_ACTIVE:
            return "active";
        case IBV_PORT_ACTIVE_DEFER:
            return "active, deferred";
    }
    return "unknown";
}

}  // namespace

std::string gid_text(const ibv_gid& gid) {
    std::string text;
    for (unsigned char byte : gid.raw) text += fmt::format("{:02x}", byte);
    return text;
}

bool parse_gid(const std::string& text, ibv_gid* gid) {
    if (text.size() != 2 * sizeof(gid->raw) || text.find_first_not_of("0123456789abcdef") != std::string::npos)
        return false;
    for (std::size_t byte = 0; byte < sizeof(gid->raw); ++byte)
        gid->raw[byte] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * byte, 2), nullptr, 16));
    return true;
}

void throw_verbs_error(const std::string& call, const std::string& nic, int error, const std::string& hint) {
    throw TransportError(fmt::format("{} failed on nic {}: {} (errno {})", call, nic, std::strerror(error), error),
                         hint);
}

std::shared_ptr<VerbsDevice> VerbsDevice::open(std::shared_ptr<const VerbsApi> api, const VerbsDeviceOptions& options) {
    std::shared_ptr<VerbsDevice> device(new VerbsDevice);
    device->api_ = std::move(api);
    device->port_ = options.port;
    device->open_by_name(options);
    if (const int error = device->api_->query_device(device->context(), &device->attributes_))
        throw_verbs_error("ibv_query_device", device->name_, error);
    device->query_port();
    device->choose_gid(options.gid_index);
    const VerbsApi* table = device->api_.get();
    device->pd_ = {table->alloc_pd(device->context()), [table](ibv_pd* pd) { table->dealloc_pd(pd); }};
    if (!device->pd_) throw_verbs_error("ibv_alloc_pd", device->name_, errno);
    return device;
}

void VerbsDevice::open_by_name(const VerbsDeviceOptions& options) {
    const VerbsApi* table = api_.get();
    int count = 0;
    VerbsHandle<ibv_device*> list{table->get_device_list(&count),
                                  [table](ibv_device** all) { table->free_device_list(all); }};
    if (!list || count == 0)
        throw TransportError("no RDMA device",
                             "is the driver loaded, and is /dev/infiniband visible in this container?");
    ibv_device* chosen = nullptr;
    std::string names;
    for (int index = 0; index < count; ++index) {
        const std::string name = table->get_device_name(list.get()[index]);
        names += (names.empty() ? "" : ", ") + name;
        if (name == options.name || (options.name.empty() && count == 1)) chosen = list.get()[index];
    }
    if (!chosen)
        throw TransportError(options.name.empty() ? fmt::format("{} RDMA devices and none chosen: {}", count, names)
                                                  : fmt::format("no RDMA device {}; there are {}", options.name, names),
                             "name one of them in the topology");
    name_ = table->get_device_name(chosen);
    context_ = {table->open_device(chosen), [table](ibv_context* context) { table->close_device(context); }};
    if (!context_) throw_verbs_error("ibv_open_device", name_, errno, "may this user open /dev/infiniband/uverbs*?");
}

void VerbsDevice::query_port() {
    ibv_port_attr attributes = {};
    if (const int error = api_->query_port(context(), port_, &attributes))
        throw_verbs_error(fmt::format("ibv_query_port of port {}", port_), name_, error);
    if (attributes.state != IBV_PORT_ACTIVE)
        throw TransportError(
            fmt::format("port {} of nic {} is {}, not active", port_, name_, port_state_text(attributes.state)),
            "is the cable in, the link up, and the subnet manager running (InfiniBand)?");
    ethernet_ = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    address_.lid = attributes.lid;
    address_.mtu = attributes.active_mtu;
    gid_table_length_ = attributes.gid_tbl_len;
    max_message_bytes_ = attributes.max_msg_sz;
}

void VerbsDevice::choose_gid(int wanted) {
    ibv_gid_entry entry = {};
    int best_rank = 0;
    for (int index = 0; index < gid_table_length_; ++index) {
        if (wanted >= 0 && index != wanted) continue;
        if (api_->query_gid(context(), port_, static_cast<uint32_t>(index), &entry) != 0 || is_zero(entry.gid))
            continue;
        // Off Ethernet (InfiniBand, EFA) entry 0 is the port's own GID.
        const int rank = wanted >= 0 || !ethernet_ ? 1 : gid_rank(entry);
        if (rank <= best_rank) continue;
        best_rank = rank;
        gid_index_ = index;
        address_.gid = entry.gid;
        if (!ethernet_) break;
    }
    if (best_rank == 0)
        throw TransportError(
            wanted >= 0 ? fmt::format("port {} of nic {} has no GID at index {}", port_, name_, wanted)
                        : fmt::format("port {} of nic {} has no usable GID among {}", port_, name_, gid_table_length_),
            "RoCE v2 needs an IP address on the network interface");
}

VerbsHandle<ibv_mr> VerbsDevice::register_memory(const MemoryRegion& region, bool remote_write, int dmabuf_fd) const {
    if (region.bytes == 0 || region.bytes > attributes_.max_mr_size)
        throw TransportError(fmt::format("a registration of {} bytes on nic {}, which takes 1 to {}", region.bytes,
                                         name_, attributes_.max_mr_size));
    const int access = IBV_ACCESS_LOCAL_WRITE | (remote_write ? IBV_ACCESS_REMOTE_WRITE : 0);
    const VerbsApi* table = api_.get();
    ibv_mr* registration =
        dmabuf_fd >= 0
            ? table->reg_dmabuf_mr(pd(), 0, region.bytes, reinterpret_cast<uint64_t>(region.base), dmabuf_fd, access)
            : table->reg_mr(pd(), region.base, region.bytes, access);
    if (!registration)
        throw_verbs_error(
            fmt::format("{} of {} bytes", dmabuf_fd >= 0 ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr", region.bytes), name_,
            errno, "is the locked-memory limit (ulimit -l) high enough?");
    return {registration, [table](ibv_mr* memory) { table->dereg_mr(memory); }};
}

VerbsHandle<ibv_cq> VerbsDevice::create_cq(int entries) const {
    const VerbsApi* table = api_.get();
    if (entries > attributes_.max_cqe)
        throw TransportError(fmt::format("a completion queue of {} entries on nic {}, which takes {}", entries, name_,
                                         attributes_.max_cqe),
                             "use a smaller send_depth");
    VerbsHandle<ibv_cq> cq{table->create_cq(context(), entries), [table](ibv_cq* queue) { table->destroy_cq(queue); }};
    if (!cq) throw_verbs_error(fmt::format("ibv_create_cq of {} entries", entries), name_, errno);
    return cq;
}

ibv_ah_attr VerbsDevice::path_to(const VerbsAddress& peer) const {
    ibv_ah_attr path = {};
    path.port_num = port_;
    path.dlid = static_cast<uint16_t>(peer.lid);
    // An InfiniBand peer without a LID is in another subnet, or this is EFA: both go by GID.
    if (ethernet_ || peer.lid == 0) {
        path.is_global = 1;
        path.grh.dgid = peer.gid;
        path.grh.sgid_index = static_cast<uint8_t>(gid_index_);
        path.grh.hop_limit = 64;
    }
    return path;
}

}  // namespace plait
