#include "compiler/passes/place_roles.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace plait {
namespace {

struct Range {
    std::string first, last;
};

struct Ranges {
    Range inter_send, intra_comm;
    std::int64_t compute_first = 0;
};

// sms: constants, in the order intra_comm, inter_send. phase: after them, clamped.
Ranges choose_ranges(const Choices& c) {
    Ranges r;
    std::int64_t next = 0;
    for (auto [role, range] : {std::pair{&c.intra_comm, &r.intra_comm}, std::pair{&c.inter_send, &r.inter_send}}) {
        if (role->placement == "warp") *range = {"0", "ctas"};
        if (role->placement != "sms") continue;
        *range = {std::to_string(next), std::to_string(next + role->sms)};
        next += role->sms;
    }
    r.compute_first = next;
    const bool both = c.intra_comm.placement == "phase" && c.inter_send.placement == "phase";
    if (c.intra_comm.placement == "phase")
        r.intra_comm = {std::to_string(next), fmt::format("min({}, ctas)", next + c.intra_comm.sms)};
    if (c.inter_send.placement == "phase") {
        const std::int64_t first = next + (both ? c.intra_comm.sms : 0), sms = c.inter_send.sms;
        r.inter_send = {fmt::format("max({}, min({}, ctas - {}))", next, first, sms),
                        fmt::format("min({}, ctas)", first + sms)};
    }
    return r;
}

bool in_mover(const RoleChoice& role) { return role.placement == "warp"; }

}  // namespace

void place_roles(const Choices& c, Plan* plan) {
    const Ranges ranges = choose_ranges(c);
    plan->roles = {{"compute", "sms", 0},
                   {"intra_comm", c.intra_comm.placement, c.intra_comm.sms},
                   {"inter_send", c.inter_send.placement, c.inter_send.sms},
                   {"inter_reduce", "none", 0}};

    AgentDef loader{"loader", AgentKind::Thread, 0, 0, {}}, mover{"mover", AgentKind::Thread, 0, 1, {}};
    auto program = [&](AgentDef* agent, const std::string& name, const std::string& role, const Range& range,
                       const std::string& source) {
        agent->programs.push_back(name);
        plan->programs.push_back({name, role, Expr(range.first), Expr(range.last), source, {}});
    };
    const std::string& gather_source = c.pattern.gather_source;
    if (c.inter_send.active()) {
        program(in_mover(c.inter_send) ? &mover : &loader, "inter_send_sender", "inter_send", ranges.inter_send,
                gather_source);
    }
    if (c.intra_comm.active()) {
        program(in_mover(c.intra_comm) ? &mover : &loader, "intra_comm_pusher", "intra_comm", ranges.intra_comm,
                gather_source);
    }
    const Range compute = {std::to_string(ranges.compute_first), "ctas"};
    program(&loader, "compute_loader", "compute", compute, c.pattern.matmul_source);
    plan->agents.push_back(loader);
    if (!mover.programs.empty()) plan->agents.push_back(mover);
    if (c.communicates) {
        AgentDef relay{"relay", AgentKind::Thread, 0, 2, {}};
        program(&relay, "protocol_relay", "protocol", {"0", "1"}, "");
        plan->agents.push_back(relay);
    }
    for (std::int64_t i = 0; i < c.consumers; ++i) {
        AgentDef consumer{fmt::format("consumer{}", i), AgentKind::Warpgroup, int(1 + i), 0, {}};
        program(&consumer, "compute_" + consumer.name, "compute", compute, c.pattern.matmul_source);
        plan->agents.push_back(consumer);
    }
}

std::string finishing_agents(const Choices& c) { return c.any("warp") ? "2 * ctas" : "ctas"; }

bool ends_its_agent(const Plan& plan, const Choices& c, const std::string& program) {
    for (const AgentDef& agent : plan.agents) {
        if (std::find(agent.programs.begin(), agent.programs.end(), program) == agent.programs.end()) continue;
        if (agent.programs.back() == program) return true;
        // sms CTAs run one program in the loader; the mover's programs run on all CTAs.
        const RoleChoice& role = program == "inter_send_sender" ? c.inter_send : c.intra_comm;
        return role.placement == "sms";
    }
    return false;
}

ProgramDef* find_program(Plan* plan, const std::string& name) {
    for (ProgramDef& program : plan->programs) {
        if (program.name == name) return &program;
    }
    throw InternalError("no program " + name);
}

}  // namespace plait
