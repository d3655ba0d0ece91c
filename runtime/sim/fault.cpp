#include "runtime/sim/fault.h"

#include <fmt/format.h>

namespace plait {

std::string FaultActor::describe() const {
    std::string who =
        cta < 0 ? fmt::format("rank {}, {}", rank, agent) : fmt::format("rank {}, cta {}, agent {}", rank, cta, agent);
    return role.empty() ? who : who + fmt::format(" (role {})", role);
}

}  // namespace plait
