#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/session/cluster.h"

namespace plait {

HostModule open_shared_object(const std::string& path) {
    // A path without a slash would be searched for among the system's libraries.
    const std::string absolute = std::filesystem::absolute(path).string();
    void* library = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw DeviceError(fmt::format("{} cannot be loaded: {}", path, dlerror()));
    std::shared_ptr<void> keep(library, [](void* handle) { dlclose(handle); });
    const auto kernel = reinterpret_cast<HostKernel>(dlsym(library, "plait_kernel"));
    if (kernel == nullptr) {
        throw DeviceError(fmt::format("{} has no symbol plait_kernel", path),
                          "it was not made by plaitc --target host");
    }
    return {kernel, std::move(keep)};
}

}  // namespace plait
