// Every name resolves to one definition, and none is declared twice where both are seen.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/verify/rules.h"
#include "compiler/verify/walk.h"
#include "runtime/base/expr_parser.h"

namespace plait {
namespace {

const std::set<std::string> kLaunchNames = {"M", "rank", "world", "node", "nodes", "local", "locals", "cta", "ctas"};
const std::string kWarpgroup = "warpgroup";  // a name of programs alone
const std::set<std::string> kTraceKinds = {"idle", "wait", "load",  "compute", "store",
                                           "push", "send", "relay", "arrived"};

class Names {
public:
    explicit Names(const Plan& plan) : plan_(plan) {}

    Diagnostics run() {
        definitions();
        sizes();
        programs();
        return std::move(findings_);
    }

private:
    void report(std::string message, std::string where, std::string hint = "declare it in the plan") {
        findings_.push_back({"check_names", std::move(message), std::move(where), std::move(hint)});
    }

    void define(const std::string& name, const char* what) {
        if (!is_identifier(name))
            report(fmt::format("{} `{}` is not an identifier", what, name), what, "names become C++ identifiers");
        else if (kLaunchNames.count(name) || name == kWarpgroup || !defined_.insert(name).second)
            report(fmt::format("{} `{}` is declared twice", what, name), what, "rename one");
    }

    bool given_by_a_tensor(const std::string& name) const {
        for (const TensorDef& tensor : plan_.tensors) {
            for (const Expr& extent : tensor.shape) {
                if (!tensor.output && extent.kind() == ExprKind::Name && extent.text() == name) return true;
            }
        }
        return false;
    }

    void definitions() {
        for (const ParamDef& param : plan_.params) {
            define(param.name, "param");
            if (param.max < 1)
                report(fmt::format("param `{}` has max = {}", param.name, param.max), "param " + param.name, "give its largest value");
            if (!given_by_a_tensor(param.name))
                report(fmt::format("param `{}` is no extent of an input tensor", param.name), "param " + param.name,
                       "its value is read off a tensor whose extent is exactly the name");
        }
        for (const Constant& c : plan_.consts) define(c.name, "const");
        globals_ = defined_;
        globals_.insert(kLaunchNames.begin(), kLaunchNames.end());
        for (const LetDef& let : plan_.lets) {
            expression(let.value, globals_, "let " + let.name);
            define(let.name, "let");
            globals_.insert(let.name);
        }
        for (const TensorDef& t : plan_.tensors) {
            define(t.name, "tensor");
            if (t.strided) define(t.pitch(), "pitch"), globals_.insert(t.pitch());
            if (t.strided && t.shape.size() != 2)
                report(fmt::format("tensor `{}` is strided and has {} dimensions", t.name, t.shape.size()), "tensor " + t.name,
                       "matrices have rows that may lie apart");
        }
        for (const BufferDef& b : plan_.buffers) define(b.name, "buffer");
        for (const FlagDef& f : plan_.flags) define(f.name, "flags");
        for (const SharedDef& s : plan_.shared) define(s.name, "shared");
        for (const BarrierDef& b : plan_.barriers) define(b.name, "barrier");
        for (const MapDef& m : plan_.maps) {
            if (m.index == 0) define(m.name, "map");
        }
        std::set<std::string> edges;
        for (const EdgeDef& e : plan_.edges) {
            if (!edges.insert(e.name).second)
                report(fmt::format("edge `{}` is declared twice", e.name), "edge", "rename one");
        }
    }

    void sizes() {
        for (const TensorDef& t : plan_.tensors) {
            for (const Expr& e : t.shape) expression(e, globals_, "tensor " + t.name);
        }
        for (const MapDef& m : plan_.maps) {
            const std::string where = fmt::format("map {}[{}]", m.name, m.index);
            if (!find_tensor(plan_, m.memory) && !find_buffer(plan_, m.memory))
                report(fmt::format("memory `{}` is neither tensor nor buffer", m.memory), where);
            expression(m.base, globals_, where);
            for (const Expr& e : m.extent) expression(e, globals_, where);
            for (const Expr& e : m.stride) expression(e, globals_, where);
        }
    }

    void programs() {
        for (const AgentDef& agent : plan_.agents) {
            for (const std::string& program : agent.programs) {
                bool known = false;
                for (const ProgramDef& p : plan_.programs) known = known || p.name == program;
                if (!known)
                    report(fmt::format("agent {} runs program `{}`, which is not there", agent.name, program),
                           "agent " + agent.name);
            }
        }
        for (const ProgramDef& program : plan_.programs) {
            run_by(program);
            expression(program.first_cta, globals_, "program " + program.name);
            expression(program.last_cta, globals_, "program " + program.name);
            number_ = 0;
            std::set<std::string> names = globals_;
            names.insert(kWarpgroup);
            body(program.body, names, {}, program.name);
        }
    }

    void run_by(const ProgramDef& program) {
        const std::vector<const AgentDef*> agents = agents_of(plan_, program.name);
        const bool warpgroups = std::all_of(agents.begin(), agents.end(),
                                            [](const AgentDef* agent) { return agent->kind == AgentKind::Warpgroup; });
        if (agents.empty() || (agents.size() > 1 && !warpgroups)) {
            report(fmt::format("program {} is run by {} agents", program.name, agents.size()), "program " + program.name,
                   "list it in one agent, or in warpgroups alone");
        }
    }

    // names: seen so far; block: declared in this block, by kind of value.
    void body(const std::vector<Statement>& statements, std::set<std::string> names, std::set<std::string> assignable,
              const std::string& program) {
        for (const Statement& s : statements) {
            const std::string where = fmt::format("program {}, statement {}", program, ++number_);
            operands(s, names, assignable, where);
            std::set<std::string> inner = names;
            switch (s.op) {
                case Op::Let:
                case Op::Enter:
                case Op::FetchTile:
                case Op::RingGet:
                case Op::FifoReserve:
                case Op::LoadValue:
                case Op::GatherDeclare:
                    declare(s.word("name"), &names, where);
                    break;
                case Op::Var:
                    declare(s.word("name"), &names, where), assignable.insert(s.word("name"));
                    break;
                case Op::Pipe:
                    declare(s.word("name"), &names, where);
                    names.insert({s.word("name") + ".slot", s.word("name") + ".phase"});
                    break;
                case Op::RelayDeclare:
                    declare(s.word("name"), &names, where);
                    names.insert(s.word("name") + ".finished");
                    break;
                case Op::AccDeclare:
                case Op::RowDeclare:
                case Op::PartDeclare:
                case Op::OperandDeclare:
                    declare(s.word("name"), &names, where);
                    break;
                case Op::For:
                    declare(s.word("var"), &inner, where);
                    break;
                default:
                    break;
            }
            if (!s.body.empty()) body(s.body, s.op == Op::For ? inner : names, assignable, program);
        }
    }

    void declare(const std::string& name, std::set<std::string>* names, const std::string& where) {
        if (!is_identifier(name))
            report(fmt::format("`{}` is not an identifier", name), where, "names become C++ identifiers");
        if (!names->insert(name).second) report(fmt::format("`{}` is declared twice", name), where, "rename one");
    }

    void operands(const Statement& s, const std::set<std::string>& names, const std::set<std::string>& assignable,
                  const std::string& where) {
        const OpSpec& spec = op_spec(s.op);
        for (const OperandSpec& operand : spec.operands) {
            if (!s.has(operand.name)) continue;
            switch (operand.kind) {
                case 'e':
                    expression(s.expr(operand.name), names, where);
                    break;
                case 's':
                    reference(s.expr(operand.name), find_shared(plan_, ref_name(s.expr(operand.name))), "shared memory",
                              names, where);
                    break;
                case 'b':
                    reference(s.expr(operand.name), find_barrier(plan_, ref_name(s.expr(operand.name))), "barrier",
                              names, where);
                    break;
                case 'm':
                    reference(s.expr(operand.name), find_map(plan_, ref_name(s.expr(operand.name))), "map", names,
                              where);
                    break;
                case 't':
                    if (constant_value(plan_, s.expr(operand.name)) < 0) {
                        report(fmt::format("{} of {} is `{}`, not a constant", operand.name, spec.mnemonic,
                                           s.expr(operand.name).print()),
                               where, "it becomes a template argument: use an integer or the plan's consts");
                    }
                    break;
                case 'f':
                    known(find_flag(plan_, s.word(operand.name)), "flags", s.word(operand.name), where);
                    break;
                case 'u':
                    known(find_buffer(plan_, s.word(operand.name)), "buffer", s.word(operand.name), where);
                    break;
                case 'g':
                    known(find_edge(plan_, s.word(operand.name)), "edge", s.word(operand.name), where);
                    break;
                default:
                    word(s, operand.name, names, assignable, where);
                    break;
            }
        }
    }

    void word(const Statement& s, const std::string& operand, const std::set<std::string>& names,
              const std::set<std::string>& assignable, const std::string& where) {
        const std::string& value = s.word(operand);
        static const std::set<std::string> kDeclared = {"pipe", "acc",  "relay",   "position", "factor", "max",
                                                        "sum",  "part", "operand", "second",   "third", "gather", "from"};
        if (kDeclared.count(operand)) {
            if (!names.count(value)) report(fmt::format("{} `{}` is not declared", operand, value), where);
        } else if (s.op == Op::Assign && operand == "name") {
            if (!assignable.count(value))
                report(fmt::format("`{}` is assigned and no var", value), where, "declare it with var");
        } else if (operand == "source" || operand == "more_source") {
            known(find_tensor(plan_, value) != nullptr || find_buffer(plan_, value) != nullptr, "source", value, where);
        } else if (operand == "tensor" || operand == "indices") {
            known(find_tensor(plan_, value) != nullptr, "tensor", value, where);
        } else if (s.op == Op::Trace && operand == "kind" && !kTraceKinds.count(value)) {
            report(fmt::format("trace kind `{}` is not known", value), where, "see runtime/trace/trace_kind.h");
        }
    }

    template <class T>
    void known(const T& found, const char* what, const std::string& name, const std::string& where) {
        if (!found) report(fmt::format("{} `{}` is not declared", what, name), where);
    }
    void reference(const Expr& ref, const void* found, const char* what, const std::set<std::string>& names,
                   const std::string& where) {
        known(found, what, ref_name(ref), where);
        expression(ref_index(ref), names, where);
    }
    void expression(const Expr& e, const std::set<std::string>& names, const std::string& where) {
        for (const std::string& name : e.names()) {
            if (!names.count(name)) report(fmt::format("`{}` in `{}` is not declared", name, e.print()), where);
        }
    }

    const Plan& plan_;
    Diagnostics findings_;
    std::set<std::string> defined_, globals_;
    int number_ = 0;
};

}  // namespace

Diagnostics check_names(const Plan& plan) { return Names(plan).run(); }

}  // namespace plait
