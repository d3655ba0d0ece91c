#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/device/driver.h"

namespace plait {
namespace {

std::string hint_of(cu::Result result, const std::string& given) {
    if (!given.empty()) return given;
    if (result >= cu::kErrorStreamCaptureFirst && result <= cu::kErrorStreamCaptureLast) {
        return "this call may not run under stream capture: create the session and attach artifacts before the capture";
    }
    if (result == cu::kErrorOutOfMemory) return "the device is out of memory: free some, or lower M or workspace_bytes";
    if (result == cu::kErrorNoBinaryForGpu || result == cu::kErrorInvalidImage) {
        return "the artifact's code is not for this GPU: compile it for this architecture";
    }
    return "";
}

}  // namespace

void check_driver(const Driver& driver, cu::Result result, const std::string& what, const std::string& hint) {
    if (result == cu::kSuccess) return;
    const char *name = nullptr, *text = nullptr;
    if (driver.error_name) driver.error_name(result, &name);
    if (driver.error_string) driver.error_string(result, &text);
    throw DeviceError(
        fmt::format("{}: {} ({}): {}", what, name ? name : "unknown error", result, text ? text : "no text"),
        hint_of(result, hint));
}

ContextScope::ContextScope(const Driver& driver, cu::Context context) : driver_(driver) {
    check_driver(driver, driver.context_push(context), "making the session's context current");
}

ContextScope::~ContextScope() {
    cu::Context popped = nullptr;
    driver_.context_pop(&popped);
}

CaptureModeScope::CaptureModeScope(const Driver& driver, cu::CaptureMode mode) : driver_(driver), previous_(mode) {
    check_driver(driver, driver.exchange_capture_mode(&previous_), "setting the thread's capture mode");
}

CaptureModeScope::~CaptureModeScope() { driver_.exchange_capture_mode(&previous_); }

}  // namespace plait
