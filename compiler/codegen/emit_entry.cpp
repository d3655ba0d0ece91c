// The entry: barriers, registers, and which agent runs which programs on which CTAs. The only part besides the first
// lines that differs between the machines.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/codegen/emit_parts.h"
#include "compiler/ir/plan_sizes.h"
#include "runtime/base/error.h"

namespace plait {
namespace {

const ProgramDef& program_of(const Plan& plan, const std::string& name) {
    for (const ProgramDef& program : plan.programs) {
        if (program.name == name) return program;
    }
    throw InternalError("plan " + plan.name + " has no program " + name);
}

bool from_first_cta(const ProgramDef& program) { return program.first_cta == Expr(0); }
bool to_last_cta(const ProgramDef& program) { return program.last_cta == Expr("ctas"); }

std::set<std::string> range_names(const Plan& plan) {
    std::set<std::string> names;
    for (const ProgramDef& program : plan.programs) {
        if (!from_first_cta(program)) names.merge(program.first_cta.names());
        if (!to_last_cta(program)) names.merge(program.last_cta.names());
        if (!from_first_cta(program) || !to_last_cta(program)) names.insert("cta");
    }
    return names;
}

void print_programs(const Plan& plan, const AgentDef& agent, SourceWriter& writer) {
    for (const std::string& name : agent.programs) {
        const ProgramDef& program = program_of(plan, name);
        std::string first = "cta >= " + print_source_expr(program.first_cta),
                    last = "cta < " + print_source_expr(program.last_cta);
        std::string call = name + "(ag, args, sh);";
        if (from_first_cta(program) && to_last_cta(program)) {
            writer.line(call);
        } else if (from_first_cta(program)) {
            writer.line(fmt::format("if ({}) {}", last, call));
        } else if (to_last_cta(program)) {
            writer.line(fmt::format("if ({}) {}", first, call));
        } else {
            writer.line(fmt::format("if ({} && {}) {}", first, last, call));
        }
    }
}

// How many arrivals complete a phase; a warpgroup arrives kWarpgroupArrivals times, which the machine knows.
std::string arrivals(const BarrierDef& barrier) {
    std::string warpgroups = barrier.warpgroup_arrivals == 1
                                 ? "kWarpgroupArrivals"
                                 : fmt::format("{} * kWarpgroupArrivals", barrier.warpgroup_arrivals);
    if (barrier.warpgroup_arrivals == 0) return std::to_string(barrier.thread_arrivals);
    if (barrier.thread_arrivals == 0) return warpgroups;
    return fmt::format("{} + {}", barrier.thread_arrivals, warpgroups);
}

void print_setup(const Plan& plan, const std::string& one_thread, SourceWriter& writer) {
    writer.open("if (" + one_thread + ")");
    if (uses_session_state(plan)) writer.line("count_in(ag, args);");
    for (const BarrierDef& barrier : plan.barriers) {
        if (barrier.thread_arrivals + barrier.warpgroup_arrivals == 0)
            throw InternalError("barrier " + barrier.name + " has no arrivals");
        std::string init = fmt::format("barrier_init(ag, sh.{}[i], {});", barrier.name, arrivals(barrier));
        writer.line(fmt::format("for (i64 i = 0; i < {}; i += 1) {}", barrier.count, init));
    }
    writer.line("fence_barrier_init(ag);");
    writer.close();
    writer.line(cluster_ctas(plan) > 1 ? "cluster_barrier(ag);" : "cta_barrier(ag);");
}

void print_leave(const Plan& plan, const std::string& one_thread, SourceWriter& writer) {
    if (!uses_session_state(plan)) return;
    writer.line("cta_barrier(ag);");
    writer.line("if (cta_any(ag, " + one_thread + " && leave(ag, args))) invalidate_outputs(ag, args);");
}

// A branch a warpgroup, or one for neighbours that run the same programs.
struct Branch {
    int first = 0, last = 0;              // warpgroups
    std::vector<const AgentDef*> agents;  // of the first

    // Both ends of a range are named, though nothing stands above the last: written as the other side of `== 0`, the
    // branch becomes its else, and ptxas then keeps the slots of pipelines in vector registers.
    std::string condition() const {
        if (first == last) return fmt::format("ag.warpgroup == {}", first);
        return fmt::format("{} <= ag.warpgroup && ag.warpgroup <= {}", first, last);
    }
    bool runs(const AgentDef& agent) const {
        return first > 0 && agents.size() == 1 && agent.kind == AgentKind::Warpgroup &&
               agents.front()->kind == AgentKind::Warpgroup && agent.programs == agents.front()->programs;
    }
};

std::vector<Branch> branches(const Plan& plan) {
    std::map<int, std::vector<const AgentDef*>> warpgroups;
    for (const AgentDef& agent : plan.agents) warpgroups[agent.warpgroup].push_back(&agent);
    std::vector<Branch> list;
    for (const auto& [warpgroup, agents] : warpgroups) {
        const bool next = !list.empty() && list.back().last + 1 == warpgroup && agents.size() == 1;
        if (next && list.back().runs(*agents.front()))
            list.back().last = warpgroup;
        else
            list.push_back({warpgroup, warpgroup, agents});
    }
    return list;
}

// setmaxnreg is executed by all warps of a warpgroup, before they part (PTX ISA, setmaxnreg).
void print_warpgroup(const Plan& plan, const std::vector<const AgentDef*>& agents, SourceWriter& writer) {
    const AgentDef& front = *agents.front();
    const bool group = front.kind == AgentKind::Warpgroup, consumer = group && front.warpgroup != 0;
    if (group && agents.size() > 1)
        throw InternalError("warpgroup " + std::to_string(front.warpgroup) + " has two agents");
    std::int64_t registers = consumer ? plan.consumer_registers : plan.producer_registers;
    if (registers > 0) writer.line(fmt::format("registers_{}<{}>();", consumer ? "consumer" : "producer", registers));
    if (group && !consumer) writer.line("ag.group = true;");
    for (const AgentDef* agent : agents) {
        if (group) {
            print_programs(plan, *agent, writer);
            continue;
        }
        writer.open(fmt::format("if (ag.is_thread({}, {}))", agent->warpgroup, agent->warp));
        writer.comment(agent->name);
        print_programs(plan, *agent, writer);
        writer.close();
    }
}

void print_sm90_entry(const Plan& plan, SourceWriter& writer) {
    const std::string cluster =
        cluster_ctas(plan) > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", cluster_ctas(plan)) : "";
    writer.open(fmt::format(
        "extern \"C\" __global__ void {}__launch_bounds__({}, 1) plait_kernel(const __grid_constant__ Args args)",
        cluster, plan.threads));
    writer.line("Shared& sh = shared_memory<Shared>();");
    writer.line("Agent ag = make_agent();");
    print_prologue(plan, range_names(plan), writer);
    print_setup(plan, "ag.is_thread(0, 0)", writer);
    for (const Branch& branch : branches(plan)) {
        writer.open("if (" + branch.condition() + ")");
        print_warpgroup(plan, branch.agents, writer);
        writer.close();
    }
    print_leave(plan, "ag.is_thread(0, 0)", writer);
    writer.close();
}

bool asks_for_its_warpgroup(const Plan& plan, const AgentDef& agent) {
    return std::any_of(agent.programs.begin(), agent.programs.end(), [&](const std::string& program) {
        return names_used(plan, program_of(plan, program).body).count("warpgroup") != 0;
    });
}

void print_host_entry(const Plan& plan, SourceWriter& writer) {
    writer.open("extern \"C\" void plait_kernel(const plait::HostCta* host_cta, const void* launch_args)");
    writer.line("const Args& args = *static_cast<const Args*>(launch_args);");
    writer.line("Shared& sh = *static_cast<Shared*>(host_cta->shared);");
    std::string kinds;
    for (const AgentDef& agent : plan.agents) {
        kinds += (kinds.empty() ? "" : ", ") + std::string(agent.kind == AgentKind::Thread ? "true" : "false");
    }
    writer.line(fmt::format("constexpr bool thread_agents[] = {{{}}};", kinds));
    writer.line("Agent ag = make_agent(*host_cta, thread_agents[host_cta->agent_index]);");
    print_prologue(plan, range_names(plan), writer);
    print_setup(plan, "host_cta->agent_index == 0", writer);
    writer.open("switch (host_cta->agent_index)");
    for (std::size_t i = 0; i < plan.agents.size(); ++i) {
        writer.open(fmt::format("case {}:", i));
        writer.comment(plan.agents[i].name);
        if (asks_for_its_warpgroup(plan, plan.agents[i])) writer.line(fmt::format("ag.warpgroup = {};", plan.agents[i].warpgroup));
        print_programs(plan, plan.agents[i], writer);
        writer.line("break;");
        writer.close();
    }
    writer.close();
    print_leave(plan, "host_cta->agent_index == 0", writer);
    writer.close();
}

}  // namespace

// No number of a launch that was given up may pass for a result.
void print_invalidate(const Plan& plan, SourceWriter& writer) {
    if (!uses_session_state(plan)) return;  // a launch that waits for nobody is never given up
    std::set<std::string> names;
    for (const TensorDef& tensor : plan.tensors) {
        for (const Expr& extent : tensor.shape) {
            if (tensor.output) names.merge(extent.names());
        }
        if (tensor.output && tensor.strided) names.insert(tensor.pitch());
    }
    writer.comment("---- outputs of a launch that was given up");
    writer.open("PLAIT_AGENT void invalidate_outputs(Agent& ag, const Args& args)");
    if (!print_prologue(plan, names, writer).empty())
        throw InternalError("plan " + plan.name + ": the shape of an output depends on what only a program declares");
    for (const TensorDef& tensor : plan.tensors) {
        if (!tensor.output) continue;
        if (tensor.strided) {
            writer.line(fmt::format("fill_nan_rows(ag, args.{}, {}, {}, {});", tensor.name, print_source_expr(tensor.shape[0]),
                                    print_source_expr(tensor.shape[1]), tensor.pitch()));
            continue;
        }
        Expr elements = tensor.shape.front();
        for (std::size_t d = 1; d < tensor.shape.size(); ++d) elements = elements * tensor.shape[d];
        writer.line(fmt::format("fill_nan(ag, args.{}, {});", tensor.name, print_source_expr(elements)));
    }
    writer.close();
    writer.blank();
}

void print_entry(const Plan& plan, SourceWriter& writer) {
    writer.comment("---- entry");
    if (plan.agents.empty()) throw InternalError("plan " + plan.name + " has no agents");
    if (plan.target == "host") return print_host_entry(plan, writer);
    print_sm90_entry(plan, writer);
}

}  // namespace plait
