// Target: the machine that code is generated for.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/topology/topology.h"

namespace plait {

struct Target {
    std::string arch = "host";                   // sm_90a, host
    int sms = 6;                                 // CTAs resident at once; host: simulated SMs
    std::int64_t shared_memory_bytes = 232448;   // dynamic shared memory one CTA may have
    std::int64_t registers_per_sm = 65536;
    bool is_host() const { return arch == "host"; }
    // arch `sm_90a` or `host` (throws ArgumentError otherwise); sizes from the topology where it describes that arch,
    // else the arch's own defaults (H200: 132 SMs).
    static Target make(const std::string& arch, const Topology& topology);
};

}  // namespace plait
