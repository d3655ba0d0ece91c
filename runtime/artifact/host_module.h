// Host code that an engine can run. The JIT makes one from a relocatable object, the runtime from a shared object.
#pragma once
#include <memory>

#include "templates/abi/host_engine.h"

namespace plait {

struct HostModule {
    HostKernel kernel = nullptr;
    std::shared_ptr<void> keep;      // holds the code loaded
};

}  // namespace plait
