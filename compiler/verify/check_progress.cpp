// The plan ends, for every M that was tried: no agent waits for ever, each output element is stored once, nothing is
// read before its writer is known to be done, no slot is overwritten while it is in use, the launch protocol is kept.
//
// The plan is interpreted without data, see interpreter/. Findings of the interpreter carry the rule that they break.
#include "compiler/verify/interpreter/interpret.h"
#include "compiler/verify/rules.h"

namespace plait {

Diagnostics check_progress(const Plan& plan, const Target& target) {
    if (plan.programs.empty() || plan.world < 1 || plan.locals < 1) return {};
    return interpreter::interpret(interpreter::choose_runs(plan, target));
}

}  // namespace plait
