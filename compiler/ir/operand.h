// Operands of Plan statements: one check for statements built in code and statements read from text.
#pragma once
#include <string>
#include <string_view>

#include "compiler/ir/plan.h"

namespace plait {

// Words: w f u g. Everything else is an expression.
bool is_word_kind(char kind);
// What is wrong with `word` as this operand, or "".
std::string word_problem(const OperandSpec& spec, std::string_view word);
// What is wrong with `expr` as this operand (refs must be `name` or `name[index]`), or "".
std::string expr_problem(const OperandSpec& spec, const Expr& expr);
bool is_word_character(char c);

}  // namespace plait
