// Statements of a program in print order, with their place: what rules go through.
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/plan.h"

namespace plait {

struct Step {
    const ProgramDef* program = nullptr;
    const AgentDef* agent = nullptr;  // nullptr where no agent runs the program; the first where warpgroups share it
    const Statement* statement = nullptr;
    int number = 0;  // in the program, from 1, in print order
    int depth = 0;
    std::string where() const;  // program compute_loader, statement 12
};

// One list per program, headers of loops before their bodies.
std::vector<std::vector<Step>> walk(const Plan& plan);
std::string mnemonic(const Step& step);

const SharedDef* find_shared(const Plan& plan, const std::string& name);
const BarrierDef* find_barrier(const Plan& plan, const std::string& name);
const BufferDef* find_buffer(const Plan& plan, const std::string& name);
const TensorDef* find_tensor(const Plan& plan, const std::string& name);
const FlagDef* find_flag(const Plan& plan, const std::string& name);
const EdgeDef* find_edge(const Plan& plan, const std::string& name);
const MapDef* find_map(const Plan& plan, const std::string& name);  // the first entry
// Name in a reference `name[index]` or `name`; index where it is given.
const std::string& ref_name(const Expr& ref);
Expr ref_index(const Expr& ref);
// Value of a template operand: an integer, or an expression of the plan's consts. -1 where it is neither.
std::int64_t constant_value(const Plan& plan, const Expr& expr);

}  // namespace plait
