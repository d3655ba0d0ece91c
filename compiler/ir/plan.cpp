#include "compiler/ir/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "compiler/ir/operand.h"
#include "compiler/ir/words.h"

namespace plait {
namespace {

std::string snake_case(std::string_view name) {
    std::string out;
    for (const char c : name) {
        if (std::isupper(static_cast<unsigned char>(c)) == 0) {
            out += c;
            continue;
        }
        if (!out.empty()) out += '_';
        out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return out;
}

OpSpec make_spec(Op op, const char* name, Effect effect, const char* operands, const char* doc) {
    OpSpec spec{op, snake_case(name), effect, {}, false, doc};
    std::istringstream words(operands);
    for (std::string word; words >> word;) {
        if (word == "{}") {
            spec.has_body = true;
            continue;
        }
        const bool optional = word.back() == '?';
        const bool known = std::string_view("esbmtwfug").find(word[0]) != std::string_view::npos;
        if (!known || word.size() < 3 || word[1] != ':') {
            throw InternalError(fmt::format("plan_ops.def, row {}: `{}` is not an operand", name, word));
        }
        spec.operands.push_back({word[0], word.substr(2, word.size() - 2 - (optional ? 1 : 0)), optional});
    }
    return spec;
}

template <class Enum>
std::string_view find_word(Enum value) {
    for (const auto& entry : words_of(value))
        if (entry.value == value) return entry.word;
    throw InternalError("enum value without a word");
}

const Operand* find_operand(const Statement& statement, std::string_view name) {
    for (const Operand& operand : statement.operands)
        if (operand.name == name) return &operand;
    return nullptr;
}

const Operand& require_operand(const Statement& statement, std::string_view name) {
    const Operand* operand = find_operand(statement, name);
    if (operand == nullptr) {
        throw InternalError(fmt::format("statement {} has no operand {}", op_spec(statement.op).mnemonic, name));
    }
    return *operand;
}

bool is_word_operand(const Statement& statement, std::string_view name) {
    for (const OperandSpec& spec : op_spec(statement.op).operands)
        if (spec.name == name) return is_word_kind(spec.kind);
    return false;
}

Operand make_operand(const OpSpec& op, const OperandSpec& spec, const std::string& text) {
    const auto reject = [&](const std::string& problem) {
        throw InternalError(fmt::format("make_statement {}: {}", op.mnemonic, problem));
    };
    Operand operand{spec.name, {}, {}};
    if (is_word_kind(spec.kind)) {
        operand.word = text;
        if (const std::string problem = word_problem(spec, text); !problem.empty()) reject(problem);
        return operand;
    }
    try {
        operand.expr = Expr::parse(text);
    } catch (const ExprSyntaxError& error) {
        reject(fmt::format("{}: {}", spec.name, error.message()));
    }
    if (const std::string problem = expr_problem(spec, operand.expr); !problem.empty()) reject(problem);
    return operand;
}

}  // namespace

const std::vector<OpSpec>& all_ops() {
    static const std::vector<OpSpec> table = {
#define PLAIT_OP(name, effect, operands, doc) make_spec(Op::name, #name, Effect::effect, operands, doc),
#include "compiler/ir/plan_ops.def"
    };
    return table;
}

const OpSpec& op_spec(Op op) {
    const auto index = static_cast<std::size_t>(op);
    if (index >= all_ops().size()) throw InternalError(fmt::format("op {} is not in plan_ops.def", index));
    return all_ops()[index];
}

const OpSpec* find_op(std::string_view mnemonic) {
    for (const OpSpec& spec : all_ops())
        if (spec.mnemonic == mnemonic) return &spec;
    return nullptr;
}

const std::string& Statement::word(std::string_view operand) const {
    const Operand& found = require_operand(*this, operand);
    if (!is_word_operand(*this, operand)) {
        throw InternalError(
            fmt::format("operand {} of {} is an expression, not a word", operand, op_spec(op).mnemonic));
    }
    return found.word;
}

const Expr& Statement::expr(std::string_view operand) const {
    const Operand& found = require_operand(*this, operand);
    if (is_word_operand(*this, operand)) {
        throw InternalError(
            fmt::format("operand {} of {} is a word, not an expression", operand, op_spec(op).mnemonic));
    }
    return found.expr;
}

bool Statement::has(std::string_view operand) const { return find_operand(*this, operand) != nullptr; }

Statement make_statement(Op op, std::vector<std::string> operands, std::vector<Statement> body) {
    const OpSpec& spec = op_spec(op);
    if (!spec.has_body && !body.empty())
        throw InternalError(fmt::format("make_statement {}: this op has no body", spec.mnemonic));
    if (operands.size() > spec.operands.size()) {
        throw InternalError(fmt::format("make_statement {}: {} operands given, it takes {}", spec.mnemonic,
                                        operands.size(), spec.operands.size()));
    }
    Statement statement{op, {}, std::move(body), {}};
    for (std::size_t i = 0; i < spec.operands.size(); ++i) {
        const bool given = i < operands.size() && !operands[i].empty();
        if (given) {
            statement.operands.push_back(make_operand(spec, spec.operands[i], operands[i]));
        } else if (!spec.operands[i].optional) {
            throw InternalError(fmt::format("make_statement {}: operand {} ({} of {}) is missing", spec.mnemonic,
                                            spec.operands[i].name, i + 1, spec.operands.size()));
        }
    }
    return statement;
}

std::string_view word_of(ProducerKind kind) { return find_word(kind); }
std::string_view word_of(SignalKind kind) { return find_word(kind); }
std::string_view word_of(EdgeScope scope) { return find_word(scope); }
std::string_view word_of(ConsumerKind kind) { return find_word(kind); }
std::string_view word_of(AgentKind kind) { return find_word(kind); }
std::string_view word_of(Effect effect) { return find_word(effect); }

std::vector<const AgentDef*> agents_of(const Plan& plan, std::string_view program) {
    std::vector<const AgentDef*> agents;
    for (const AgentDef& agent : plan.agents) {
        if (std::find(agent.programs.begin(), agent.programs.end(), program) != agent.programs.end()) agents.push_back(&agent);
    }
    return agents;
}

std::string agent_names(const Plan& plan, std::string_view program) {
    std::string names;
    for (const AgentDef* agent : agents_of(plan, program)) {
        if (!names.empty()) names += ", ";
        names += agent->name;
    }
    return names;
}

}  // namespace plait
