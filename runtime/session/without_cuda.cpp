// What a build without CUDA (PLAIT_CUDA=OFF) answers where a GPU is asked for.
#ifndef PLAIT_WITH_CUDA
#include "runtime/base/error.h"
#include "runtime/device/driver.h"
#include "runtime/session/session.h"

namespace plait {

std::shared_ptr<const Driver> open_cuda_driver() {
    throw DeviceError("plait was built without CUDA", "build with -DPLAIT_CUDA=ON, or use the host machine");
}

std::unique_ptr<Session> Session::create(const Topology&, int, std::shared_ptr<Rendezvous>,
                                         std::shared_ptr<const Driver>, const SessionOptions&) {
    throw DeviceError("plait was built without CUDA", "build with -DPLAIT_CUDA=ON, or use the host machine");
}

}  // namespace plait
#endif
