#include "compiler/ir/target.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace plait {

Target Target::make(const std::string& arch, const Topology& topology) {
    Target target;
    target.arch = arch;
    if (arch != "sm_90a" && arch != "host") {
        throw ArgumentError(fmt::format("target `{}` is not known", arch), "targets are sm_90a and host");
    }
    if (topology.arch == arch) {
        target.sms = topology.sms;
        target.shared_memory_bytes = topology.shared_memory_bytes;
        target.registers_per_sm = topology.registers_per_sm;
    } else if (arch == "sm_90a") {
        target.sms = 132;  // H200 SXM
    }
    return target;
}

}  // namespace plait
