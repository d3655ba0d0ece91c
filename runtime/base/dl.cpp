#include "runtime/base/dl.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "runtime/base/error.h"

namespace plait {

Library Library::open(const std::string& purpose, std::vector<std::string> candidates, const std::string& chosen,
                      const std::string& hint) {
    if (!chosen.empty()) candidates = {chosen};
    if (candidates.empty()) throw InternalError(fmt::format("no library named for {}", purpose));
    std::vector<std::string> reasons;
    for (const std::string& candidate : candidates) {
        // local: a second copy of the library in this process (torch's) keeps its own symbols
        if (void* handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) return Library(handle, candidate);
        const char* reason = ::dlerror();
        reasons.emplace_back(reason == nullptr ? candidate + ": no reason given" : reason);
    }
    throw DeviceError(
        fmt::format("{} is needed for {} and does not open: {}", candidates[0], purpose, fmt::join(reasons, "; ")),
        hint);
}

Library::~Library() {
    if (handle_ != nullptr && !resident_) ::dlclose(handle_);
}

Library::Library(Library&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)), resident_(other.resident_) {}

Library& Library::operator=(Library&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(path_, other.path_);
    std::swap(resident_, other.resident_);
    return *this;
}

void* Library::find(const std::string& symbol) const { return ::dlsym(handle_, symbol.c_str()); }

void* Library::require(const std::string& symbol) const {
    void* address = find(symbol);
    if (address == nullptr)
        throw DeviceError(fmt::format("library {} has no symbol {}", path_, symbol), "a newer version is needed");
    return address;
}

}  // namespace plait
