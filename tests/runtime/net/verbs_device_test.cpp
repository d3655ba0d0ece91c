#include "runtime/net/verbs_device.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/net/verbs_fake.h"

namespace plait {
namespace {

using testing::FakeVerbs;
using testing::gid_entry;

std::string error_of(FakeVerbs& fake, const VerbsDeviceOptions& options = {}) {
    try {
        VerbsDevice::open(fake.verbs(), options);
    } catch (const TransportError& error) {
        return error.message();
    }
    return "";
}

TEST(VerbsDevice, ChoosesTheRoutableIpv4Gid) {
    FakeVerbs fake;
    fake.gids = {gid_entry(0, "fe800000000000000000000000000001", IBV_GID_TYPE_ROCE_V1),
                 gid_entry(1, "fe800000000000000000000000000001", IBV_GID_TYPE_ROCE_V2),
                 gid_entry(2, "00000000000000000000ffff0a4d0001", IBV_GID_TYPE_ROCE_V1),
                 gid_entry(3, "20010db8000000000000000000000001", IBV_GID_TYPE_ROCE_V2),
                 gid_entry(4, "00000000000000000000ffff0a4d0001", IBV_GID_TYPE_ROCE_V2)};
    fake.port.gid_tbl_len = 5;
    EXPECT_EQ(VerbsDevice::open(fake.verbs(), {})->gid_index(), 4);
    fake.gids.pop_back();
    EXPECT_EQ(VerbsDevice::open(fake.verbs(), {})->gid_index(), 3);
    fake.gids.pop_back();
    EXPECT_EQ(VerbsDevice::open(fake.verbs(), {})->gid_index(), 1);  // link-local, better than RoCE v1
    VerbsDeviceOptions wanted;
    wanted.gid_index = 2;
    EXPECT_EQ(VerbsDevice::open(fake.verbs(), wanted)->gid_index(), 2);
    wanted.gid_index = 9;
    EXPECT_EQ(error_of(fake, wanted), "port 1 of nic fake0 has no GID at index 9");
    fake.gids = {gid_entry(0, "fe800000000000000000000000000001", IBV_GID_TYPE_ROCE_V1)};
    EXPECT_EQ(error_of(fake), "port 1 of nic fake0 has no usable GID among 5");
}

TEST(VerbsDevice, InfinibandGoesByLidAndGidOnlyWithoutOne) {
    FakeVerbs fake;
    fake.port.link_layer = IBV_LINK_LAYER_INFINIBAND;
    fake.port.lid = 12;
    fake.gids[0].gid_type = IBV_GID_TYPE_IB;
    const auto device = VerbsDevice::open(fake.verbs(), {});
    EXPECT_EQ(device->gid_index(), 0);
    VerbsAddress peer;
    peer.lid = 40000;
    EXPECT_EQ(device->path_to(peer).is_global, 0);
    EXPECT_EQ(device->path_to(peer).dlid, 40000);
    peer.lid = 0;
    EXPECT_EQ(device->path_to(peer).is_global, 1);
}

TEST(VerbsDevice, SaysWhichDevicesThereAre) {
    FakeVerbs fake;
    fake.devices = {"mlx5_0", "mlx5_1"};
    EXPECT_EQ(error_of(fake), "2 RDMA devices and none chosen: mlx5_0, mlx5_1");
    VerbsDeviceOptions options;
    options.name = "mlx5_7";
    EXPECT_EQ(error_of(fake, options), "no RDMA device mlx5_7; there are mlx5_0, mlx5_1");
    options.name = "mlx5_1";
    EXPECT_EQ(VerbsDevice::open(fake.verbs(), options)->name(), "mlx5_1");
    fake.devices = {};
    EXPECT_EQ(error_of(fake), "no RDMA device");
    EXPECT_TRUE(fake.live().empty());
}

TEST(VerbsDevice, RefusesAPortThatIsNotActive) {
    FakeVerbs fake;
    fake.port.state = IBV_PORT_DOWN;
    EXPECT_EQ(error_of(fake), "port 1 of nic fake0 is down, not active");
    EXPECT_TRUE(fake.live().empty());
}

TEST(VerbsDevice, RefusesSizesThatTheDeviceDoesNotTake) {
    FakeVerbs fake;
    fake.device.max_mr_size = 1 << 20;
    fake.device.max_cqe = 100;
    const auto device = VerbsDevice::open(fake.verbs(), {});
    unsigned char byte = 0;
    EXPECT_THROW(device->register_memory({&byte, 2 << 20}, true), TransportError);
    EXPECT_THROW(device->register_memory({&byte, 0}, true), TransportError);
    EXPECT_THROW(device->create_cq(101), TransportError);
}

TEST(VerbsApi, NamesTheLibraryThatIsMissing) {
    try {
        open_verbs("/nowhere/libibverbs.so.1");
        FAIL() << "no error";
    } catch (const DeviceError& error) {
        EXPECT_NE(error.message().find("/nowhere/libibverbs.so.1"), std::string::npos);
    }
}

}  // namespace
}  // namespace plait
