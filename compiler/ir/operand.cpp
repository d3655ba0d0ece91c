#include "compiler/ir/operand.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

namespace plait {
namespace {

// Operands whose words form a closed list, by operand name.
const std::vector<std::string_view>* closed_words(std::string_view operand) {
    static const std::map<std::string_view, std::vector<std::string_view>> lists = {
        {"scope", {"Cta", "Gpu", "System"}},
        {"dtype", {"bf16", "f16", "f32"}},  // of matrix data; index tensors are i32, and no operand names them
    };
    const auto found = lists.find(operand);
    return found == lists.end() ? nullptr : &found->second;
}

}  // namespace

bool is_word_kind(char kind) { return kind == 'w' || kind == 'f' || kind == 'u' || kind == 'g'; }

// Letters, digits and what numbers such as -1.5e+3 need.
bool is_word_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '+' || c == '-';
}

std::string word_problem(const OperandSpec& spec, std::string_view word) {
    if (word.empty()) return fmt::format("{} is empty", spec.name);
    if (!std::all_of(word.begin(), word.end(), is_word_character))
        return fmt::format("{}: `{}` is not a word", spec.name, word);
    const auto* legal = closed_words(spec.name);
    if (legal != nullptr && std::find(legal->begin(), legal->end(), word) == legal->end()) {
        return fmt::format("{}: `{}` is none of {}", spec.name, word, fmt::join(*legal, ", "));
    }
    return "";
}

std::string expr_problem(const OperandSpec& spec, const Expr& expr) {
    const bool is_ref = spec.kind == 's' || spec.kind == 'b' || spec.kind == 'm';
    if (!is_ref || expr.kind() == ExprKind::Name || expr.kind() == ExprKind::Index) return "";
    const char* what = spec.kind == 's' ? "shared memory" : spec.kind == 'b' ? "a barrier" : "a tensor map";
    return fmt::format("{}: `{}` does not refer to {}, write name or name[index]", spec.name, expr.print(), what);
}

}  // namespace plait
