#include <fmt/format.h>

#include "compiler/ir/field_text.h"
#include "compiler/ir/line_reader.h"
#include "compiler/ir/operand.h"
#include "compiler/ir/plan_fields.h"
#include "compiler/ir/text.h"
#include "runtime/base/nearest.h"

namespace plait {
namespace {

constexpr int kBodyDepthLimit = 64;

template <class Def>
std::string field_line(const Def& def) {
    Def copy = def;
    FieldPrinter printer;
    visit_fields(printer, copy);
    return printer.text();
}

template <class Def>
void print_section(std::string& out, const char* keyword, const std::vector<Def>& defs) {
    if (!defs.empty()) out += '\n';
    for (const Def& def : defs) out += fmt::format("{} {} {}\n", keyword, def.name, field_line(def));
}

void print_comment(std::string& out, const std::string& comment, const std::string& indent) {
    for (std::size_t start = 0; start < comment.size();) {
        const std::size_t end = std::min(comment.find('\n', start), comment.size());
        out += fmt::format("{}// {}\n", indent, comment.substr(start, end - start));
        start = end + 1;
    }
}

void print_statements(std::string& out, const std::vector<Statement>& body, int depth, bool comments) {
    const std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
    for (const Statement& statement : body) {
        const OpSpec& spec = op_spec(statement.op);
        if (comments) print_comment(out, statement.comment, indent);
        out += indent + spec.mnemonic;
        const char* separator = " ";
        for (const Operand& operand : statement.operands) {
            out += fmt::format("{}{}={}", separator, operand.name,
                               operand.word.empty() ? operand.expr.print() : operand.word);
            separator = ", ";
        }
        if (!spec.has_body) {
            out += '\n';
            continue;
        }
        out += " {\n";
        print_statements(out, statement.body, depth + 1, comments);
        out += indent + "}\n";
    }
}

struct PlanParser {
    LineReader in;
    Plan plan;

    explicit PlanParser(const std::string& text) : in("plan text", text) {}

    template <class Def>
    void fields(Def& def) {
        FieldReader reader(in);
        visit_fields(reader, def);
    }

    template <class Def>
    void section(std::vector<Def>& defs) {
        Def def;
        def.name = in.identifier("a name");
        fields(def);
        in.expect_end();
        defs.push_back(std::move(def));
    }

    void header() {
        if (!in.next_line() || !in.take_name("plan")) in.fail("expected `plan NAME` on the first line");
        plan.name = in.identifier("the plan's name");
        fields(plan);
        in.expect_end();
    }

    void constant() {
        Constant constant{in.identifier("a name"), 0};
        in.expect("=");
        constant.value = in.integer("the constant's value");
        in.expect_end();
        plan.consts.push_back(constant);
    }

    void let() {
        LetDef let{in.identifier("a name"), {}};
        in.expect("=");
        let.value = in.expr("the value");
        in.expect_end();
        plan.lets.push_back(let);
    }

    void program() {
        ProgramDef program;
        program.name = in.identifier("a name");
        fields(program);
        in.expect("{");
        in.expect_end();
        program.body = body(0);
        plan.programs.push_back(std::move(program));
    }

    std::vector<Statement> body(int depth) {
        if (depth > kBodyDepthLimit) in.fail(fmt::format("bodies nest more than {} deep", kBodyDepthLimit));
        std::vector<Statement> statements;
        for (;;) {
            if (!in.next_line()) in.fail("the text ends inside a body, `}` is missing");
            if (in.take("}")) break;
            statements.push_back(statement(depth));
        }
        in.expect_end();
        return statements;
    }

    Statement statement(int depth) {
        const std::size_t start = in.position();
        const std::string mnemonic = in.identifier("an op");
        const OpSpec* spec = find_op(mnemonic);
        if (spec == nullptr) {
            std::vector<std::string> mnemonics;
            for (const OpSpec& known : all_ops()) mnemonics.push_back(known.mnemonic);
            in.fail_at(start, fmt::format("no op `{}`, the nearest is `{}`", mnemonic, nearest(mnemonic, mnemonics)));
        }
        Statement statement{spec->op, {}, {}, {}};
        for (const OperandSpec& operand : spec->operands) read_operand(statement, *spec, operand);
        if (spec->has_body) in.expect("{");
        in.expect_end();
        if (spec->has_body) statement.body = body(depth + 1);
        return statement;
    }

    void read_operand(Statement& statement, const OpSpec& op, const OperandSpec& spec) {
        const std::size_t start = in.position();
        const bool first = statement.operands.empty();
        if ((!first && !in.take(",")) || !in.take_name(spec.name) || !in.take("=")) {
            in.return_to(start);
            if (spec.optional) return;
            in.fail(fmt::format("{}: expected `{}{}=`", op.mnemonic, first ? "" : ", ", spec.name));
        }
        const std::size_t value_start = in.position();
        Operand operand{spec.name, {}, {}};
        std::string problem;
        if (is_word_kind(spec.kind)) {
            operand.word = in.word(spec.name);
            problem = word_problem(spec, operand.word);
        } else {
            operand.expr = in.expr(spec.name);
            problem = expr_problem(spec, operand.expr);
        }
        if (!problem.empty()) in.fail_at(value_start, fmt::format("{}: {}", op.mnemonic, problem));
        statement.operands.push_back(std::move(operand));
    }

    void definition() {
        if (in.take_name("const")) return constant();
        if (in.take_name("param")) return section(plan.params);
        if (in.take_name("let")) return let();
        if (in.take_name("tensor")) return section(plan.tensors);
        if (in.take_name("buffer")) return section(plan.buffers);
        if (in.take_name("flags")) return section(plan.flags);
        if (in.take_name("map")) return section(plan.maps);
        if (in.take_name("shared")) return section(plan.shared);
        if (in.take_name("barrier")) return section(plan.barriers);
        if (in.take_name("edge")) return section(plan.edges);
        if (in.take_name("role")) return section(plan.roles);
        if (in.take_name("agent")) return section(plan.agents);
        if (in.take_name("program")) return program();
        in.fail("expected const, param, let, tensor, buffer, flags, map, shared, barrier, edge, role, agent or program");
    }
};

}  // namespace

std::string print_plan(const Plan& plan, bool comments) {
    std::string out = fmt::format("plan {} {}\n", plan.name, field_line(plan));
    if (!plan.consts.empty()) out += '\n';
    for (const Constant& constant : plan.consts) out += fmt::format("const {} = {}\n", constant.name, constant.value);
    print_section(out, "param", plan.params);
    if (!plan.lets.empty()) out += '\n';
    for (const LetDef& let : plan.lets) out += fmt::format("let {} = {}\n", let.name, let.value.print());
    print_section(out, "tensor", plan.tensors);
    print_section(out, "buffer", plan.buffers);
    print_section(out, "flags", plan.flags);
    print_section(out, "map", plan.maps);
    print_section(out, "shared", plan.shared);
    print_section(out, "barrier", plan.barriers);
    print_section(out, "edge", plan.edges);
    print_section(out, "role", plan.roles);
    print_section(out, "agent", plan.agents);
    for (const ProgramDef& program : plan.programs) {
        out += '\n';
        if (comments) print_comment(out, program.source, "");
        out += fmt::format("program {} {} {{\n", program.name, field_line(program));
        print_statements(out, program.body, 1, comments);
        out += "}\n";
    }
    return out;
}

Plan parse_plan(const std::string& text) {
    PlanParser parser(text);
    parser.header();
    while (parser.in.next_line()) parser.definition();
    return std::move(parser.plan);
}

}  // namespace plait
