#include "runtime/device/driver.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/device/fake_driver.h"

namespace plait {
namespace {

TEST(Driver, FakeFillsTheWholeTable) {
    FakeDriver fake;
    const Driver& driver = *fake.table();
#define PLAIT_DRIVER_ENTRY(member, symbol, version, ...) EXPECT_TRUE(driver.member) << symbol;
#include "runtime/device/driver_entries.def"
}

TEST(CheckDriver, NamesTheCallAndTheDriversError) {
    FakeDriver fake;
    check_driver(*fake.table(), cu::kSuccess, "nothing");
    try {
        check_driver(*fake.table(), cu::kErrorOutOfMemory, "allocating 5 bytes");
        FAIL();
    } catch (const DeviceError& error) {
        EXPECT_NE(std::string(error.what()).find("allocating 5 bytes: CUDA_ERROR_OUT_OF_MEMORY (2): made up"),
                  std::string::npos)
            << error.what();
        EXPECT_NE(error.hint(), "");
    }
}

TEST(ContextScope, PutsBackWhatWasThere) {
    FakeDriver fake;
    {
        const ContextScope outer(*fake.table(), reinterpret_cast<cu::Context>(0x1));
        const ContextScope inner(*fake.table(), reinterpret_cast<cu::Context>(0x2));
        EXPECT_EQ(fake.live().at("pushed context"), 2);
    }
    EXPECT_TRUE(fake.live().empty());
}

TEST(CaptureModeScope, PutsBackTheThreadsMode) {
    FakeDriver fake;
    const auto mode = [&] {
        cu::CaptureMode current = cu::CaptureMode::Global;
        fake.table()->exchange_capture_mode(&current);
        cu::CaptureMode same = current;
        fake.table()->exchange_capture_mode(&same);
        return current;
    };
    {
        const CaptureModeScope relaxed(*fake.table(), cu::CaptureMode::Relaxed);
        const CaptureModeScope local(*fake.table(), cu::CaptureMode::ThreadLocal);
        EXPECT_EQ(mode(), cu::CaptureMode::ThreadLocal);
    }
    EXPECT_EQ(mode(), cu::CaptureMode::Global);
}

TEST(FakeDriver, RefusesUnsafeCallsUnderAGlobalCapture) {
    FakeDriver fake;
    fake.set_capturing(reinterpret_cast<cu::Stream>(0x10), true);
    cu::DevicePointer pointer = 0;
    EXPECT_NE(fake.table()->memory_alloc(&pointer, 16), cu::kSuccess);
    EXPECT_EQ(fake.capture_violations(), 1);
    const CaptureModeScope local(*fake.table(), cu::CaptureMode::ThreadLocal);
    ASSERT_EQ(fake.table()->memory_alloc(&pointer, 16), cu::kSuccess);
    fake.table()->memory_free(pointer);
}

}  // namespace
}  // namespace plait
