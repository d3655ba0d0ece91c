// The pieces of emit(): each prints one part of kernel.cu. Only emit_entry.cpp and the first lines know the machine.
#pragma once
#include "compiler/codegen/emit_statement.h"
#include "compiler/codegen/source_writer.h"
#include "compiler/ir/plan.h"

namespace plait {

// Constants that a function body starts with: prologue names and lets, of those that `names` needs.
// Returns the lets that depend on a name which the body declares itself (the epoch).
std::vector<LetDef> print_prologue(const Plan& plan, std::set<std::string> names, SourceWriter& writer);

void print_invalidate(const Plan& plan, SourceWriter& writer);  // function that fills the outputs with NaN
void print_entry(const Plan& plan, SourceWriter& writer);

}  // namespace plait
