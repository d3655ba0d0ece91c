#include "runtime/device/machine_topology.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/device/fake_driver.h"

namespace plait {
namespace {

TEST(MachineTopology, DescribesTheGpusThatTheDriverShows) {
    FakeDriverOptions options;
    options.devices = 4, options.sms = 114;
    FakeDriver fake(options);
    const Topology topology = machine_topology(*fake.table(), 2, 2);
    EXPECT_EQ(topology.label(), "2x2");
    EXPECT_EQ(topology.arch, "sm_90a");
    EXPECT_EQ(topology.sms, 114);
    EXPECT_EQ(topology.shared_memory_bytes, 232448);
    EXPECT_EQ(topology.registers_per_sm, 65536);
    EXPECT_EQ(topology.gpu_name, "Fake 0");
    EXPECT_EQ(Topology::from_json_text(topology.to_json_text(), "round trip").sms, 114);
}

TEST(MachineTopology, RefusesGpusThatCannotRunTheCode) {
    FakeDriverOptions options;
    options.major = 8, options.minor = 6;
    FakeDriver fake(options);
    try {
        machine_topology(*fake.table(), 1, 2);
        FAIL();
    } catch (const DeviceError& error) {
        EXPECT_NE(error.message().find("compute capability 8.6, sm_90a code needs 9.0"), std::string::npos) << error.message();
    }
}

TEST(MachineTopology, SaysThatThereIsNoGpu) {
    FakeDriverOptions options;
    options.devices = 0;
    FakeDriver fake(options);
    EXPECT_THROW(machine_topology(*fake.table(), 1, 1), DeviceError);
}

}  // namespace
}  // namespace plait
