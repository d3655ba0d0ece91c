// Plan -> kernel.cu: heading, constants, struct Args, struct Shared, one function a program, the entry.
#include "compiler/codegen/emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/codegen/emit_parts.h"
#include "compiler/codegen/emit_shapes.h"
#include "runtime/base/error.h"

namespace plait {
namespace {

// A name of the prologue and where its value comes from, in the order in which they are printed.
struct PrologueName {
    const char* name;
    const char* value;
};
constexpr PrologueName kPrologue[] = {
    {"M", "args.launch.m"},
    {"rank", "args.launch.rank"},
    {"node", "args.launch.node"},
    {"local", "args.launch.local_rank"},
    {"cta", "ag.cta"},
    {"ctas", "ag.ctas"},
    {"warpgroup", "ag.warpgroup"},
};

bool is_prologue_name(const std::string& name) {
    return std::any_of(std::begin(kPrologue), std::end(kPrologue),
                       [&](const PrologueName& p) { return name == p.name; });
}

// The plan's own and the world's shape, which is as static as they are.
std::vector<Constant> all_constants(const Plan& plan) {
    std::vector<Constant> constants;
    for (const Constant& c : {Constant{"world", plan.world}, {"nodes", plan.nodes}, {"locals", plan.locals}}) {
        bool given = std::any_of(plan.consts.begin(), plan.consts.end(),
                                 [&](const Constant& own) { return own.name == c.name; });
        if (!given) constants.push_back(c);
    }
    constants.insert(constants.end(), plan.consts.begin(), plan.consts.end());
    return constants;
}

void print_heading(const Plan& plan, SourceWriter& writer) {
    writer.comment(fmt::format("plait {}: M <= {}, {} rank{} = {} node{} x {}, target {}", plan.name, plan.m_max,
                               plan.world, plan.world == 1 ? "" : "s", plan.nodes, plan.nodes == 1 ? "" : "s",
                               plan.locals, plan.target));
    for (const RoleDef& role : plan.roles) {
        std::string sms = role.sms > 0 ? fmt::format(", {} CTAs", role.sms) : "";
        if (role.placement != "none") writer.comment(fmt::format("role {}: {}{}", role.name, role.placement, sms));
    }
    if (plan.target == "host") {
        writer.trailing("#include \"host/machine.h\"", "the tile machine over runtime/sim's C table");
    } else {
        writer.trailing("#include \"sm90/machine.cuh\"", "the tile machine in PTX");
    }
    writer.trailing("#include \"kernel_shapes.h\"", "instruction text of the shapes below, one file a machine");
    writer.blank();
    writer.line("using namespace plait;");
    writer.blank();
    writer.line("namespace {");
    writer.blank();
}

void print_constants(const Plan& plan, SourceWriter& writer) {
    for (const Constant& constant : all_constants(plan))
        writer.line(fmt::format("constexpr i64 {} = {};", constant.name, constant.value));
    for (const BufferDef& buffer : plan.buffers) {
        writer.trailing(fmt::format("constexpr u64 {}_offset = {};", buffer.name, buffer.offset),
                        fmt::format("{} [{}]", buffer.dtype, fmt::join(buffer.shape, ", ")));
    }
    for (const FlagDef& flag : plan.flags) {
        if (flag.session) continue;
        writer.trailing(fmt::format("constexpr u64 {}_offset = {};", flag.name, flag.offset),
                        fmt::format("{} flags", flag.count));
    }
    writer.blank();
}

std::string shape_comment(const TensorDef& tensor) {
    std::vector<std::string> extents;
    for (const Expr& extent : tensor.shape) extents.push_back(extent.print());
    return fmt::format("[{}]", fmt::join(extents, ", "));
}

void print_args(const Plan& plan, SourceWriter& writer) {
    std::vector<ArgsField> fields = args_layout(plan);
    writer.open("struct Args");
    writer.line("Launch launch;");
    for (const TensorDef& tensor : plan.tensors) {
        writer.trailing(fmt::format("{}{}* {};", tensor.output ? "" : "const ", tensor.dtype, tensor.name),
                        shape_comment(tensor));
    }
    for (const TensorDef& tensor : plan.tensors)
        if (tensor.strided) writer.trailing(fmt::format("i64 {};", tensor.pitch()), "bytes from row to row");
    for (const ParamDef& param : plan.params)
        writer.trailing(fmt::format("i64 {};", param.name), fmt::format("<= {}", param.max));
    for (const ArgsField& field : fields) {
        if (field.kind == "map") writer.line(fmt::format("TensorMap {}[{}];", field.name, field.bytes / 128));
    }
    writer.close("};");
    for (const ArgsField& field : fields) {
        writer.line(fmt::format("PLAIT_AT_OFFSET(Args, {}, {});", field.name, field.offset));
    }
    writer.line(fmt::format("static_assert(sizeof(Args) == {});", args_bytes(plan)));
    writer.blank();
}

void print_shared(const Plan& plan, SourceWriter& writer) {
    writer.open("struct Shared");
    for (const SharedDef& shared : plan.shared) {
        // Eight bytes are a word of a ring; everything else is bytes that bulk copies and matrix operations read.
        std::string type = shared.bytes == 8 ? "i64" : fmt::format("Bytes<{}>", shared.bytes);
        writer.line(fmt::format("alignas({}) {} {}[{}];", shared.align, type, shared.name, shared.count));
    }
    for (const BarrierDef& barrier : plan.barriers)
        writer.line(fmt::format("Barrier {}[{}];", barrier.name, barrier.count));
    writer.close("};");
    writer.line(fmt::format("static_assert(sizeof(Shared) == {});", shared_bytes(plan)));
    writer.blank();
}

std::int64_t print_program(const Plan& plan, const ProgramDef& program, std::int64_t first_wait, SourceWriter& writer) {
    std::string ctas = program.first_cta == Expr(0) && program.last_cta == Expr("ctas")
                           ? "every CTA"
                           : fmt::format("CTAs {}..{}", program.first_cta.print(), program.last_cta.print());
    std::string source = program.source.empty() ? "" : ", from " + program.source;
    std::string agents = agent_names(plan, program.name);
    writer.comment(fmt::format("---- role {}, agent {}, {}{}", program.role, agents.empty() ? "none" : agents, ctas, source));
    writer.open(fmt::format("PLAIT_AGENT void {}(Agent& ag, const Args& args, Shared& sh)", program.name));
    std::vector<LetDef> later = print_prologue(plan, names_used(plan, program.body), writer);
    const auto one_thread = [](const AgentDef* agent) { return agent->kind == AgentKind::Thread; };
    const std::vector<const AgentDef*> runners = agents_of(plan, program.name);
    StatementPrinter printer(plan, writer, first_wait, std::all_of(runners.begin(), runners.end(), one_thread));
    printer.print(program.body, later);
    writer.close();
    writer.blank();
    return printer.next_wait();
}

std::string print_kernel(const Plan& plan, bool comments) {
    SourceWriter writer(comments);
    print_heading(plan, writer);
    print_constants(plan, writer);
    print_args(plan, writer);
    print_shared(plan, writer);
    std::int64_t wait = 0;
    for (const ProgramDef& program : plan.programs) wait = print_program(plan, program, wait, writer);
    print_invalidate(plan, writer);
    writer.line("}  // namespace");
    writer.blank();
    print_entry(plan, writer);
    return writer.text();
}

}  // namespace

std::vector<LetDef> print_prologue(const Plan& plan, std::set<std::string> names, SourceWriter& writer) {
    // Lets stand in order of dependence: from the last one back, each used let adds the names it needs.
    for (auto let = plan.lets.rbegin(); let != plan.lets.rend(); ++let) {
        if (names.count(let->name)) names.merge(let->value.names());
    }
    for (const PrologueName& p : kPrologue) {
        if (names.count(p.name)) writer.line(fmt::format("const i64 {} = {};", p.name, p.value));
    }
    for (const TensorDef& tensor : plan.tensors) {
        if (tensor.strided && names.count(tensor.pitch()))
            writer.line(fmt::format("const i64 {} = args.{};", tensor.pitch(), tensor.pitch()));
    }
    for (const ParamDef& param : plan.params) {
        if (names.count(param.name)) writer.line(fmt::format("const i64 {} = args.{};", param.name, param.name));
    }
    std::vector<LetDef> later;
    std::set<std::string> known;
    for (const ParamDef& param : plan.params) known.insert(param.name);
    for (const TensorDef& tensor : plan.tensors) {
        if (tensor.strided) known.insert(tensor.pitch());
    }
    for (const Constant& constant : all_constants(plan)) known.insert(constant.name);
    for (const LetDef& let : plan.lets) {
        if (!names.count(let.name)) continue;
        std::set<std::string> needs = let.value.names();
        bool ready = std::all_of(needs.begin(), needs.end(),
                                 [&](const std::string& name) { return known.count(name) || is_prologue_name(name); });
        if (!ready) {
            later.push_back(let);
            continue;
        }
        known.insert(let.name);
        writer.line(fmt::format("const i64 {} = {};", let.name, print_source_expr(let.value)));
    }
    return later;
}

Source emit(const Plan& plan) {
    Source source;
    source.kernel = print_kernel(plan, true);
    source.shapes = kernel_shapes(plan);
    source.key_text = print_kernel(plan, false) + "\n// kernel_shapes.h\n" + source.shapes;
    return source;
}

}  // namespace plait
