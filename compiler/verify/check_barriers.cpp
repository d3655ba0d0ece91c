// A barrier's phase completes after exactly the arrivals that its agents make, and somebody waits for it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "compiler/verify/rules.h"
#include "compiler/verify/walk.h"

namespace plait {

Diagnostics check_barriers(const Plan& plan) {
    Diagnostics findings;
    const auto programs = walk(plan);
    for (const BarrierDef& barrier : plan.barriers) {
        std::set<std::string> threads, warpgroups;
        std::int64_t senders = 1;  // CTAs whose agents arrive here
        bool waited = false;
        for (const std::vector<Step>& program : programs) {
            for (const Step& step : program) {
                const Statement& s = *step.statement;
                if (!s.has("bar") || ref_name(s.expr("bar")) != barrier.name) continue;
                waited = waited || s.op == Op::BarrierWait;
                if (s.op != Op::BarrierArrive && s.op != Op::ClusterArrive && s.op != Op::BarrierExpect) continue;
                if (s.op == Op::ClusterArrive) senders = constant_value(plan, s.expr("ctas"));
                for (const AgentDef* agent : agents_of(plan, step.program->name)) {
                    // Bytes are expected by one thread, also of a warpgroup.
                    const bool thread = agent->kind == AgentKind::Thread || s.op == Op::BarrierExpect;
                    (thread ? threads : warpgroups).insert(agent->name);
                }
            }
        }
        const std::string where = "barrier " + barrier.name;
        if (barrier.count < 1)
            findings.push_back({"check_barriers", fmt::format("{} has {} slots", barrier.name, barrier.count), where,
                                "a barrier array has at least one"});
        if (senders * std::int64_t(threads.size()) != barrier.thread_arrivals ||
            senders * std::int64_t(warpgroups.size()) != barrier.warpgroup_arrivals) {
            findings.push_back({"check_barriers",
                                fmt::format("a phase of {} counts {} thread and {} warpgroup arrivals, but agents "
                                            "arrive from threads [{}] and warpgroups [{}]{}",
                                            barrier.name, barrier.thread_arrivals, barrier.warpgroup_arrivals,
                                            fmt::join(threads, ", "), fmt::join(warpgroups, ", "),
                                            senders > 1 ? fmt::format(" of {} CTAs", senders) : ""),
                                where, "each agent that arrives or expects counts once per phase"});
        }
        if (!waited)
            findings.push_back({"check_barriers", fmt::format("no agent waits for {}", barrier.name), where,
                                "wait for it, or remove it with its arrivals"});
    }
    return findings;
}

}  // namespace plait
