#include "runtime/session/cuda_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/device/cuda_resources.h"

namespace plait {
namespace {

void check_arch(const Driver& driver, const Manifest& manifest, cu::Device device) {
    const int major = device_attribute(driver, device, cu::kComputeCapabilityMajor);
    const int minor = device_attribute(driver, device, cu::kComputeCapabilityMinor);
    // `a` code runs on its own compute capability alone (CUDA C++ Programming Guide, "Feature set compiler targets").
    if (manifest.arch != fmt::format("sm_{}{}a", major, minor)) {
        throw ArgumentError(fmt::format("artifact {} is for {}, device {} has compute capability {}.{}", manifest.name,
                                        manifest.arch, device, major, minor),
                            "compile it for this GPU");
    }
}

}  // namespace

CudaProgram::CudaProgram(std::shared_ptr<const Driver> driver, const Artifact& artifact, const RankPlace& place,
                         const CtaBudget& budget)
    : driver_(std::move(driver)), manifest_(artifact.manifest), binder_(manifest_, place), budget_(budget), ctas_(budget.ctas) {
    check_artifact(manifest_, place);
    check_arch(*driver_, manifest_, budget_.device);
    if (manifest_.min_ctas > budget_.ctas) {
        throw ArgumentError(
            fmt::format("artifact {} needs {} CTAs at least, a launch of this session has {} (of {} SMs)",
                        manifest_.name, manifest_.min_ctas, budget_.ctas, budget_.device_sms),
            "raise sm_budget, give its roles fewer SMs, or set the knob cluster = 1 where it has clusters");
    }
    const int shared_limit = device_attribute(*driver_, budget_.device, cu::kMaxSharedMemoryPerBlockOptin);
    if (manifest_.shared_bytes > shared_limit) {
        throw ArgumentError(fmt::format("artifact {} needs {} bytes of shared memory a CTA, device {} allows {}",
                                        manifest_.name, manifest_.shared_bytes, budget_.device, shared_limit),
                            "use fewer stages or smaller tiles");
    }
    try {
        load(artifact);
        check_residency();
        if (manifest_.cluster > 1) fit_clusters();
    } catch (...) {
        if (module_ != nullptr) driver_->module_unload(module_);
        throw;
    }
}

CudaProgram::~CudaProgram() { driver_->module_unload(module_); }

void CudaProgram::load(const Artifact& artifact) {
    if (artifact.code.empty())
        throw ArgumentError(fmt::format("artifact {} carries no code", manifest_.name), "compile it again");
    check_driver(*driver_, driver_->module_load(&module_, artifact.code.data()),
                 fmt::format("loading the code of {}", manifest_.name));
    check_driver(*driver_, driver_->module_function(&function_, module_, "plait_kernel"),
                 fmt::format("finding plait_kernel in {}", manifest_.name));
    check_driver(*driver_,
                 driver_->function_set_attribute(function_, cu::kMaxDynamicSharedSizeBytes,
                                                 static_cast<int>(manifest_.shared_bytes)),
                 fmt::format("giving {} its {} bytes of shared memory", manifest_.name, manifest_.shared_bytes));
    // With lazy loading the code would reach the device at the first launch, which may be under capture or wait for a
    // kernel that waits for this one.
    check_driver(*driver_, driver_->function_load(function_),
                 fmt::format("loading plait_kernel of {}", manifest_.name));
    std::size_t offset = 0, bytes = 0;
    check_driver(*driver_, driver_->function_parameter(function_, 0, &offset, &bytes),
                 fmt::format("asking {} for its arguments", manifest_.name));
    if (bytes != static_cast<std::size_t>(manifest_.args_bytes)) {
        throw ArgumentError(fmt::format("the code of {} takes {} bytes of arguments, its manifest says {}",
                                        manifest_.name, bytes, manifest_.args_bytes),
                            "code and manifest are of different compilations: compile it again");
    }
}

void CudaProgram::check_residency() const {
    int blocks = 0;
    check_driver(*driver_,
                 driver_->occupancy(&blocks, function_, static_cast<int>(manifest_.threads),
                                    static_cast<std::size_t>(manifest_.shared_bytes)),
                 fmt::format("asking how many CTAs of {} an SM holds", manifest_.name));
    if (budget_.ctas > blocks * budget_.device_sms) {
        throw ArgumentError(fmt::format("artifact {}: {} CTAs of {} threads and {} bytes of shared memory cannot be "
                                        "resident at once: {} SMs hold {} each",
                                        manifest_.name, budget_.ctas, manifest_.threads, manifest_.shared_bytes,
                                        budget_.device_sms, blocks),
                            "lower sm_budget");
    }
}

// The CTAs of a cluster stand on SMs of one GPC (CUDA C++ Programming Guide, "Thread Block Clusters"): where GPCs have
// odd numbers of SMs, or a MIG slice has, some stay idle. Clusters beyond those that run at once would begin when
// others end.
void CudaProgram::fit_clusters() {
    const int cluster = static_cast<int>(manifest_.cluster);
    ctas_ = budget_.ctas / cluster * cluster;
    const cu::LaunchConfig asked = config(ctas_);
    int clusters = 0;
    check_driver(*driver_, driver_->active_clusters(&clusters, function_, &asked),
                 fmt::format("asking how many clusters of {} run at once", manifest_.name));
    if (clusters < 1) {
        throw ArgumentError(
            fmt::format("artifact {}: no cluster of {} CTAs of {} threads and {} bytes of shared memory fits on the "
                        "{} SMs of device {}",
                        manifest_.name, cluster, manifest_.threads, manifest_.shared_bytes, budget_.device_sms,
                        budget_.device),
            "use the knob cluster = 1");
    }
    ctas_ = std::min(ctas_, clusters * cluster);
}

cu::LaunchConfig CudaProgram::config(int ctas) const {
    cu::LaunchConfig config = {};
    config.grid_x = static_cast<unsigned>(ctas);
    config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
    config.block_x = static_cast<unsigned>(manifest_.threads);
    config.shared_bytes = static_cast<unsigned>(manifest_.shared_bytes);
    return config;
}

void CudaProgram::launch(const std::vector<unsigned char>& args, cu::Stream stream) const {
    cu::LaunchAttribute cooperative = {};
    cooperative.id = cu::kAttributeCooperative;
    cooperative.value.cooperative = 1;
    cu::LaunchConfig config = this->config(ctas_);
    config.stream = stream;
    config.attributes = &cooperative;
    // Clusters wait for nobody but themselves, and start whole.
    config.attribute_count = budget_.cooperative && manifest_.cluster == 1 ? 1 : 0;
    void* parameters[] = {const_cast<unsigned char*>(args.data())};
    check_driver(*driver_, driver_->launch(&config, function_, parameters, nullptr),
                 fmt::format("launching {} with {} CTAs of {} threads", manifest_.name, ctas_, manifest_.threads));
}

}  // namespace plait
