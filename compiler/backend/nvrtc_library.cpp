#include "compiler/backend/nvrtc_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/dl.h"
#include "runtime/base/error.h"
#include "runtime/base/settings.h"

namespace plait {
namespace {

namespace fs = std::filesystem;
constexpr const char* kName = "libnvrtc.so.13";
constexpr const char* kInstall =
    "pip install 'nvidia-cuda-nvrtc>=13,<14' into the environment beside plait, or set PLAIT_NVRTC_LIBRARY to the file";
constexpr int kAncestors = 6;  // build/bin/plaitc and site-packages/plait/_native.so are both nearer than that

// site-packages of a virtual environment, its Python's version unknown.
std::vector<fs::path> site_packages(const fs::path& environment) {
    std::vector<fs::path> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(environment / "lib", ignored)) {
        if (entry.path().filename().string().starts_with("python3")) found.push_back(entry.path() / "site-packages");
    }
    std::sort(found.rbegin(), found.rend());
    return found;
}

// The file that holds this function: the program itself, or Python's extension module.
fs::path this_library() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&open_nvrtc), &info) == 0 || !info.dli_fname) return {};
    std::error_code ignored;
    return fs::canonical(info.dli_fname, ignored);
}

// NVRTC opens its builtins by bare name when it first compiles, and the wheel's has no search path of its own: on a
// machine without the toolkit they are found only if they are loaded already.
void load_builtins_beside(const std::string& nvrtc) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(fs::path(nvrtc).parent_path(), ignored)) {
        if (!entry.path().filename().string().starts_with("libnvrtc-builtins.so")) continue;
        Library::open("compiling for sm_90a", {entry.path().string()}, "", kInstall).keep_loaded();
    }
}

NvrtcLibrary bind_all(Library library) {
    load_builtins_beside(library.path());
    NvrtcLibrary nvrtc{};
    nvrtc.path = library.path();
    auto bind = [&]<class R, class... A>(const char* symbol, R (*&function)(A...)) {
        function = library.function<R(A...)>(symbol);
    };
    bind("nvrtcCreateProgram", nvrtc.create_program);
    bind("nvrtcDestroyProgram", nvrtc.destroy_program);
    bind("nvrtcCompileProgram", nvrtc.compile_program);
    bind("nvrtcGetProgramLogSize", nvrtc.get_log_size);
    bind("nvrtcGetProgramLog", nvrtc.get_log);
    bind("nvrtcGetCUBINSize", nvrtc.get_cubin_size);
    bind("nvrtcGetCUBIN", nvrtc.get_cubin);
    bind("nvrtcGetPTXSize", nvrtc.get_ptx_size);
    bind("nvrtcGetPTX", nvrtc.get_ptx);
    bind("nvrtcGetErrorString", nvrtc.get_error_string);
    int (*get_version)(int*, int*) = nullptr;
    bind("nvrtcVersion", get_version);
    int major = 0, minor = 0;
    if (get_version(&major, &minor) != kNvrtcSuccess)
        throw CompileError(nvrtc.path + " does not say its version", kInstall);
    nvrtc.version = fmt::format("nvrtc {}.{}", major, minor);
    library.keep_loaded();
    return nvrtc;
}

}  // namespace

std::vector<std::string> nvrtc_candidates_near(const std::string& file) {
    std::vector<std::string> candidates;
    fs::path folder = fs::path(file).parent_path();
    for (int i = 0; i < kAncestors && folder != folder.root_path(); ++i, folder = folder.parent_path()) {
        std::vector<fs::path> roots{folder};
        for (const fs::path& environment : {folder / ".venv", folder}) {
            std::vector<fs::path> packages = site_packages(environment);
            roots.insert(roots.end(), packages.begin(), packages.end());
        }
        for (const fs::path& root : roots) {
            for (const char* place : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}) {
                fs::path candidate = root / place / kName;
                std::error_code ignored;
                if (fs::exists(candidate, ignored)) candidates.push_back(candidate.string());
            }
        }
    }
    return candidates;
}

std::vector<std::string> nvrtc_candidates() {
    std::error_code ignored;
    std::vector<std::string> candidates = nvrtc_candidates_near(fs::canonical("/proc/self/exe", ignored).string());
    for (const std::string& candidate : nvrtc_candidates_near(this_library().string())) candidates.push_back(candidate);
    candidates.push_back(fmt::format("/usr/local/cuda/lib64/{}", kName));
    candidates.push_back(kName);
    return candidates;
}

NvrtcLibrary open_nvrtc() {
    std::string chosen = Settings::from_environment().nvrtc_library;
    try {
        return bind_all(Library::open("compiling for sm_90a", nvrtc_candidates(), chosen, kInstall));
    } catch (const DeviceError& error) {
        throw CompileError(error.message(), error.hint());
    }
}

}  // namespace plait
