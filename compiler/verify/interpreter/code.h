// A Plan's programs as flat instruction lists: loops are jumps, names are slots, references are numbers.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/verify/interpreter/compiled_expr.h"
#include "compiler/verify/walk.h"

namespace plait::interpreter {

enum class Control { None, Jump, JumpUnless, JumpIf, Set };  // Set: slot = operands[0]

struct Instruction {
    Op op{};  // where control is None
    Control control = Control::None;
    int jump = 0;
    int slot = -1;    // of the name that the statement declares or uses
    int object = -1;  // first barrier or flag of the array that is named
    int object_count = 0;
    int shared = -1, shared_count = 0;
    int shared2 = -1, shared2_count = 0;
    int buffer = -1;
    int map = -1;  // first entry of the tensor map array
    CompiledExpr map_index;
    CompiledExpr index;  // inside `object`
    CompiledExpr shared_index, shared2_index;
    std::vector<CompiledExpr> operands;  // e and t operands, in the order of the op's row
    int boxes = 1;                       // consecutive slots that a matrix operation reads
    std::vector<int> values;             // accumulators and register operands that are named, in the order of the row
    Step step;
};

struct Program {
    const ProgramDef* definition = nullptr;
    CompiledExpr first_cta, last_cta;
    std::vector<Instruction> code;
};

struct Code {
    const Plan* plan = nullptr;
    std::vector<std::string> globals;                          // names of the first slots: launch names, consts, lets
    int warpgroup = 0;                                         // slot of the agent's own, behind the globals
    int slots = 0;                                             // of an agent
    std::vector<Program> programs;                             // in the plan's order
    std::vector<int> first_shared, first_barrier, first_flag;  // numbers of the first slot of each array
    int shared_slots = 0, barriers = 0, flags = 0;
    int values = 0;  // accumulators and register operands of an agent
    static constexpr int kPhase = 1;  // a pipe's slot is at its slot, its phase in the next one
};

// Of a plan whose names resolve (check_names).
Code compile(const Plan& plan);

}  // namespace plait::interpreter
