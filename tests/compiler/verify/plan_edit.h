// Edits of plans for tests: find a statement, remove it, change an operand.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>

#include "compiler/ir/plan.h"

namespace plait::testing {

inline std::vector<Statement>* program_body(Plan* plan, const std::string& name) {
    for (ProgramDef& p : plan->programs) {
        if (p.name == name) return &p.body;
    }
    throw std::runtime_error("no program " + name);
}

// Calls use(list, index) for every statement with this op, in print order, until it returns true.
inline bool each(std::vector<Statement>* body, Op op,
                 const std::function<bool(std::vector<Statement>*, std::size_t)>& use) {
    for (std::size_t i = 0; i < body->size(); ++i) {
        if ((*body)[i].op == op && use(body, i)) return true;
        if (each(&(*body)[i].body, op, use)) return true;
    }
    return false;
}

// The n-th statement with this op is removed.
inline void remove(Plan* plan, const std::string& program, Op op, int n = 0) {
    if (!each(program_body(plan, program), op, [&](auto* list, std::size_t i) {
            if (n-- > 0) return false;
            list->erase(list->begin() + long(i));
            return true;
        })) {
        throw std::runtime_error("nothing to remove");
    }
}

// All of them.
inline void remove_all(Plan* plan, const std::string& program, Op op) {
    try {
        for (;;) remove(plan, program, op);
    } catch (const std::runtime_error&) {
    }
}

inline void set_operand(Plan* plan, const std::string& program, Op op, const std::string& operand,
                        const std::string& value, int n = 0) {
    if (!each(program_body(plan, program), op, [&](auto* list, std::size_t i) {
            if (n-- > 0) return false;
            for (Operand& o : (*list)[i].operands) {
                if (o.name != operand) continue;
                if (!o.word.empty())
                    o.word = value;
                else
                    o.expr = Expr(value);
                return true;
            }
            return false;
        })) {
        throw std::runtime_error("nothing to set");
    }
}

}  // namespace plait::testing
