#include "compiler/verify/walk.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace plait {
namespace {

void collect(const std::vector<Statement>& body, Step step, std::vector<Step>* steps) {
    for (const Statement& statement : body) {
        step.statement = &statement;
        step.number = int(steps->size()) + 1;
        steps->push_back(step);
        Step inner = step;
        inner.depth += 1;
        collect(statement.body, inner, steps);
    }
}

template <class T>
const T* find_named(const std::vector<T>& list, const std::string& name) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const T& t) { return t.name == name; });
    return found == list.end() ? nullptr : &*found;
}

}  // namespace

std::string Step::where() const { return fmt::format("program {}, statement {}", program->name, number); }

std::vector<std::vector<Step>> walk(const Plan& plan) {
    std::vector<std::vector<Step>> programs;
    for (const ProgramDef& program : plan.programs) {
        Step step;
        step.program = &program;
        const std::vector<const AgentDef*> agents = agents_of(plan, program.name);
        if (!agents.empty()) step.agent = agents.front();
        programs.emplace_back();
        collect(program.body, step, &programs.back());
    }
    return programs;
}

std::string mnemonic(const Step& step) { return op_spec(step.statement->op).mnemonic; }

const SharedDef* find_shared(const Plan& plan, const std::string& name) { return find_named(plan.shared, name); }
const BarrierDef* find_barrier(const Plan& plan, const std::string& name) { return find_named(plan.barriers, name); }
const BufferDef* find_buffer(const Plan& plan, const std::string& name) { return find_named(plan.buffers, name); }
const TensorDef* find_tensor(const Plan& plan, const std::string& name) { return find_named(plan.tensors, name); }
const FlagDef* find_flag(const Plan& plan, const std::string& name) { return find_named(plan.flags, name); }
const EdgeDef* find_edge(const Plan& plan, const std::string& name) { return find_named(plan.edges, name); }
const MapDef* find_map(const Plan& plan, const std::string& name) { return find_named(plan.maps, name); }

const std::string& ref_name(const Expr& ref) { return ref.text(); }
Expr ref_index(const Expr& ref) { return ref.kind() == ExprKind::Index ? ref.operands()[0] : Expr(0); }

std::int64_t constant_value(const Plan& plan, const Expr& expr) {
    if (expr.kind() == ExprKind::Integer) return expr.integer();
    try {
        return expr.evaluate([&](const std::string& name, bool, std::int64_t) -> std::int64_t {
            for (const Constant& constant : plan.consts) {
                if (constant.name == name) return constant.value;
            }
            throw ScheduleError("not a constant");
        });
    } catch (const Error&) {
        return -1;
    }
}

}  // namespace plait
