// CudaProgram: an artifact's code, loaded and found fit to run on one device.
#pragma once
#include <memory>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/device/driver.h"
#include "runtime/session/argument_binder.h"

namespace plait {

// The CTAs that a launch of a rank gets.
struct CtaBudget {
    cu::Device device = 0;
    int device_sms = 0;
    int ctas = 0;
    bool cooperative = false;  // the whole device is this rank's
};

class CudaProgram {
public:
    // Loads everything a launch needs: no first use is left for a launch. ArgumentError: the artifact does not fit the
    // session, with the numbers; DeviceError: the driver refuses the code.
    CudaProgram(std::shared_ptr<const Driver> driver, const Artifact& artifact, const RankPlace& place,
                const CtaBudget& budget);
    ~CudaProgram();
    CudaProgram(const CudaProgram&) = delete;
    CudaProgram& operator=(const CudaProgram&) = delete;

    const Manifest& manifest() const { return manifest_; }
    void launch(const std::vector<unsigned char>& args, cu::Stream stream) const;
    ArgumentBinder& binder() { return binder_; }

    std::uint64_t area_offset = 0;  // in every rank's workspace

private:
    void load(const Artifact& artifact);
    void check_residency() const;
    void fit_clusters();
    cu::LaunchConfig config(int ctas) const;

    std::shared_ptr<const Driver> driver_;
    Manifest manifest_;
    ArgumentBinder binder_;
    CtaBudget budget_;
    int ctas_ = 0;  // of a launch: whole clusters, as many as run at once
    cu::Module module_ = nullptr;
    cu::Function function_ = nullptr;
};

}  // namespace plait
