#include <fmt/format.h>

#include <type_traits>

#include "runtime/base/dl.h"
#include "runtime/base/error.h"
#include "runtime/base/settings.h"
#include "runtime/device/driver.h"

namespace plait {
namespace {

constexpr int kOldestDriver = 12040;  // cuFuncLoad, cuFuncGetParamInfo
constexpr unsigned long long kDefaultSearch = 0;

// cuGetProcAddress_v2 (CUDA 12.0): the only symbol looked up by name; it knows which form of an entry is meant.
using GetProcAddress = cu::Result (*)(const char* symbol, void** entry, int version, std::uint64_t flags, int* status);

template <typename Signature>
void bind_entry(std::function<Signature>& member, GetProcAddress get, const char* symbol, int version) {
    void* entry = nullptr;
    int status = 0;
    const cu::Result result = get(symbol, &entry, version, kDefaultSearch, &status);
    if (result != cu::kSuccess || entry == nullptr) {
        throw DeviceError(fmt::format("the CUDA driver has no {} of version {}.{} (result {}, status {})", symbol,
                                      version / 1000, version % 1000 / 10, result, status),
                          "install a driver of CUDA 13.0 or newer");
    }
    member = reinterpret_cast<Signature*>(entry);
}

}  // namespace

std::shared_ptr<const Driver> open_cuda_driver() {
    Library library = Library::open("launching on a GPU", {"libcuda.so.1"}, Settings::from_environment().cuda_library,
                                    "install an NVIDIA driver, or use the host machine");
    library.keep_loaded();
    const auto get = library.function<std::remove_pointer_t<GetProcAddress>>("cuGetProcAddress_v2");
    auto driver = std::make_shared<Driver>();
    bind_entry(driver->driver_version, get, "cuDriverGetVersion", 2020);
    int version = 0;
    if (driver->driver_version(&version) == cu::kSuccess && version < kOldestDriver) {
        throw DeviceError(fmt::format("the CUDA driver supports CUDA {}.{}, plait needs {}.{}", version / 1000,
                                      version % 1000 / 10, kOldestDriver / 1000, kOldestDriver % 1000 / 10),
                          "install a driver of CUDA 13.0 or newer");
    }
#define PLAIT_DRIVER_ENTRY(member, symbol, version, ...) bind_entry(driver->member, get, symbol, version);
#include "runtime/device/driver_entries.def"
    check_driver(*driver, driver->init(0), "cuInit");
    int devices = 0;
    check_driver(*driver, driver->device_count(&devices), "cuDeviceGetCount");
    if (devices == 0) throw DeviceError("the CUDA driver sees no device", "check CUDA_VISIBLE_DEVICES");
    return driver;
}

}  // namespace plait
