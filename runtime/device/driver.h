// Driver: the table of CUDA driver entries that plait calls. Filled from libcuda.so.1 at run time, or by a test's fake:
// the members are std::function so that a fake carries its state and none of it is global.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/device/driver_types.h"

namespace plait {

struct Driver {
#define PLAIT_DRIVER_ENTRY(member, symbol, version, ...) std::function<__VA_ARGS__> member;
#include "runtime/device/driver_entries.def"
};

// Opens libcuda.so.1 and initialises it. DeviceError: no driver, no device, or a driver too old (names the entry).
std::shared_ptr<const Driver> open_cuda_driver();

// Throws DeviceError `what: CUDA_ERROR_...: text` where result is not success.
void check_driver(const Driver& driver, cu::Result result, const std::string& what, const std::string& hint = "");

// Makes `context` current in this thread for a scope; what was current before is current again afterwards.
class ContextScope {
public:
    ContextScope(const Driver& driver, cu::Context context);
    ~ContextScope();
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;

private:
    const Driver& driver_;
};

// Capture mode of this thread for a scope: with Relaxed, calls that are unsafe under a global-mode capture elsewhere
// neither fail nor spoil that capture. Proxy threads and the watch stand in one for as long as they call the driver.
class CaptureModeScope {
public:
    CaptureModeScope(const Driver& driver, cu::CaptureMode mode);
    ~CaptureModeScope();
    CaptureModeScope(const CaptureModeScope&) = delete;
    CaptureModeScope& operator=(const CaptureModeScope&) = delete;

private:
    const Driver& driver_;
    cu::CaptureMode previous_;
};

}  // namespace plait
