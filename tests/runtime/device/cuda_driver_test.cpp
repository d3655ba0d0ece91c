#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/device/driver.h"

namespace plait {
namespace {

// True on every machine: either there is a driver and it answers, or the error says which library is missing.
TEST(OpenCudaDriver, OpensOrSaysWhatIsMissing) {
    try {
        const auto driver = open_cuda_driver();
        int devices = 0;
        EXPECT_EQ(driver->device_count(&devices), cu::kSuccess);
        EXPECT_GT(devices, 0);
    } catch (const DeviceError& error) {
        EXPECT_TRUE(error.message().find("libcuda.so.1") != std::string::npos ||
                    error.message().find("driver") != std::string::npos ||
                    error.message().find("cuInit") != std::string::npos)
            << error.message();
        EXPECT_NE(error.hint(), "");
    }
}

}  // namespace
}  // namespace plait
