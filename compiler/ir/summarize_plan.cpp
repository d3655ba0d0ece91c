#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/ir/text.h"

namespace plait {
namespace {

std::string bytes_text(double bytes) {
    static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
    return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

double buffer_bytes(const BufferDef& buffer) {
    double bytes = buffer.dtype == "f32" ? 4 : 2;
    for (const std::int64_t extent : buffer.shape) bytes *= static_cast<double>(extent);
    return bytes;
}

template <class Def>
int name_width(const std::vector<Def>& defs) {
    std::size_t width = 0;
    for (const Def& def : defs) width = std::max(width, def.name.size());
    return static_cast<int>(width);
}

// What a program does, each thing once, in the order of its first appearance.
struct Activity {
    int statements = 0;
    std::vector<std::string> waits, signals, copies, outputs;

    static void add(std::vector<std::string>& list, const std::string& name) {
        if (!name.empty() && std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
    }

    // The edge where the op names one, else the memory it touches.
    static std::string subject(const Statement& statement) {
        for (const char* word : {"edge", "buffer", "source", "tensor"})
            if (statement.has(word)) return statement.word(word);
        for (const char* ref : {"map", "slot", "bar"})
            if (statement.has(ref)) return statement.expr(ref).text();
        return "";
    }

    void collect(const std::vector<Statement>& body) {
        for (const Statement& statement : body) {
            ++statements;
            const Effect effect = op_spec(statement.op).effect;
            if (effect == Effect::Wait) add(waits, subject(statement));
            if (effect == Effect::Signal) add(signals, subject(statement));
            if (effect == Effect::Copy)
                add(copies, statement.has("map") ? statement.expr("map").text() : subject(statement));
            if (effect == Effect::Output) add(outputs, subject(statement));
            collect(statement.body);
        }
    }
};

std::string program_line(const Plan& plan, const ProgramDef& program, int width) {
    Activity activity;
    activity.collect(program.body);
    const std::string agents = agent_names(plan, program.name);
    std::string line = fmt::format("  program {:<{}}  CTAs [{}, {}), {}: {} statements", program.name, width,
                                   program.first_cta.print(), program.last_cta.print(), agents.empty() ? "no agent" : agents,
                                   activity.statements);
    if (!activity.waits.empty()) line += fmt::format("; waits for {}", fmt::join(activity.waits, ", "));
    if (!activity.copies.empty()) line += fmt::format("; copies {}", fmt::join(activity.copies, ", "));
    if (!activity.signals.empty()) line += fmt::format("; signals {}", fmt::join(activity.signals, ", "));
    if (!activity.outputs.empty()) line += fmt::format("; stores {}", fmt::join(activity.outputs, ", "));
    return line + "\n";
}

}  // namespace

std::string summarize_plan(const Plan& plan) {
    std::string sizes;
    for (const Constant& constant : plan.consts)
        if (constant.name == "N" || constant.name == "K") sizes += fmt::format(" {}={}", constant.name, constant.value);
    std::string out = fmt::format("plan {}  M<={}{}  world {} = {} x {}  {}, {} threads a CTA\n", plan.name, plan.m_max,
                                  sizes, plan.world, plan.nodes, plan.locals, plan.target, plan.threads);
    const int buffer_width = name_width(plan.buffers), edge_width = name_width(plan.edges),
              role_width = name_width(plan.roles);
    for (const BufferDef& buffer : plan.buffers) {
        out += fmt::format("  buffer {:<{}}  {} [{}] symmetric, {}\n", buffer.name, buffer_width, buffer.dtype,
                           fmt::join(buffer.shape, ", "), bytes_text(buffer_bytes(buffer)));
    }
    for (const EdgeDef& edge : plan.edges) {
        out += fmt::format("  edge {:<{}}  {} -> {} ({}) -> {}{}\n", edge.name, edge_width, word_of(edge.producer),
                           word_of(edge.signal), word_of(edge.scope), word_of(edge.consumer),
                           edge.memory.empty() ? "" : " of " + edge.memory);
    }
    for (const RoleDef& role : plan.roles) {
        out += fmt::format("  role {:<{}}  {}{}\n", role.name, role_width, role.placement,
                           role.sms > 0 ? fmt::format(", {} SMs", role.sms) : "");
    }
    const int program_width = name_width(plan.programs);
    for (const ProgramDef& program : plan.programs) out += program_line(plan, program, program_width);
    return out;
}

}  // namespace plait
