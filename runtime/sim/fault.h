// What the simulator throws when a kernel breaks the memory model or an engine rule. The kernel is at fault, not plait.
#pragma once
#include <string>
#include <utility>

#include "runtime/base/error.h"

namespace plait {

// Who: cta is -1 for a proxy or NIC. role is that of the agent's last wait site, empty before the first.
struct FaultActor {
    int rank = 0, cta = 0;
    std::string agent, role;
    std::string describe() const;  // rank 1, cta 2, agent loader (role compute)
};

class SimulationFault : public Error {
public:
    // kind: read_before_write, overwrite_before_read, ... one word for tests; what: a sentence with the numbers.
    SimulationFault(std::string fault, FaultActor actor, const std::string& what, std::string hint = "")
        : Error("SimulationFault", actor.describe() + ": " + what, std::move(hint)),
          fault_(std::move(fault)),
          actor_(std::move(actor)) {}
    const std::string& fault() const { return fault_; }
    const FaultActor& actor() const { return actor_; }

private:
    std::string fault_;
    FaultActor actor_;
};

}  // namespace plait
