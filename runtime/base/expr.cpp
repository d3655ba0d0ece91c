#include "runtime/base/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/base/expr_parser.h"

namespace plait {
namespace {

constexpr int kConditionalLevel = 1;
constexpr int kUnaryLevel = 9;
constexpr int kPrimaryLevel = 10;

// Binding strength: what prints without parentheses inside an operand of level l has a level of at least l.
int level_of(const Expr& expr) {
    switch (expr.kind()) {
        case ExprKind::Integer:
            return expr.integer() < 0 ? kUnaryLevel : kPrimaryLevel;
        case ExprKind::Unary:
            return kUnaryLevel;
        case ExprKind::Binary:
            return binary_level(expr.text());
        case ExprKind::Conditional:
            return kConditionalLevel;
        case ExprKind::Name:
        case ExprKind::Index:
        case ExprKind::Field:
        case ExprKind::Call:
            return kPrimaryLevel;
    }
    return kPrimaryLevel;
}

bool starts_with_minus(const Expr& unary) {
    return unary.kind() == ExprKind::Integer ? unary.integer() < 0
                                             : unary.kind() == ExprKind::Unary && unary.text() == "-";
}

void print_to(std::string& out, const Expr& expr, int least_level);

void print_arguments(std::string& out, const std::vector<Expr>& arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (i != 0) out += ", ";
        print_to(out, arguments[i], kConditionalLevel);
    }
}

void print_bare(std::string& out, const Expr& expr) {
    const auto& operands = expr.operands();
    switch (expr.kind()) {
        case ExprKind::Integer:
            out += std::to_string(expr.integer());
            return;
        case ExprKind::Name:
            out += expr.text();
            return;
        case ExprKind::Index:
        case ExprKind::Call:
            out += expr.text();
            out += expr.kind() == ExprKind::Index ? '[' : '(';
            print_arguments(out, operands);
            out += expr.kind() == ExprKind::Index ? ']' : ')';
            return;
        case ExprKind::Field:
            print_bare(out, operands[0]);
            out += '.' + expr.text();
            return;
        case ExprKind::Unary:
            out += expr.text();
            // `--x` would be C's decrement
            print_to(out, operands[0],
                     expr.text() == "-" && starts_with_minus(operands[0]) ? kPrimaryLevel : kUnaryLevel);
            return;
        case ExprKind::Binary: {
            const int level = binary_level(expr.text());
            print_to(out, operands[0], level);
            out += ' ' + expr.text() + ' ';
            print_to(out, operands[1], level + 1);
            return;
        }
        case ExprKind::Conditional:
            print_to(out, operands[0], kConditionalLevel + 1);
            out += " ? ";
            print_to(out, operands[1], kConditionalLevel);
            out += " : ";
            print_to(out, operands[2], kConditionalLevel);
            return;
    }
}

void print_to(std::string& out, const Expr& expr, int least_level) {
    const bool parentheses = level_of(expr) < least_level;
    if (parentheses) out += '(';
    print_bare(out, expr);
    if (parentheses) out += ')';
}

void collect_names(const Expr& expr, std::set<std::string>& names) {
    if (expr.kind() == ExprKind::Field) {
        names.insert(expr.operands()[0].text() + "." + expr.text());
        return;
    }
    if (expr.kind() == ExprKind::Name || expr.kind() == ExprKind::Index) names.insert(expr.text());
    for (const Expr& operand : expr.operands()) collect_names(operand, names);
}

using i64 = std::int64_t;

i64 checked(bool overflow, i64 value, const char* operation, i64 a, i64 b) {
    if (overflow) throw ScheduleError(fmt::format("{} {} {} overflows 64 bits", a, operation, b), "use smaller sizes");
    return value;
}
i64 add(i64 a, i64 b) {
    i64 r;
    const bool o = __builtin_add_overflow(a, b, &r);
    return checked(o, r, "+", a, b);
}
i64 subtract(i64 a, i64 b) {
    i64 r;
    const bool o = __builtin_sub_overflow(a, b, &r);
    return checked(o, r, "-", a, b);
}
i64 multiply(i64 a, i64 b) {
    i64 r;
    const bool o = __builtin_mul_overflow(a, b, &r);
    return checked(o, r, "*", a, b);
}

i64 divide(i64 a, i64 b, bool remainder, const char* operation) {
    if (b == 0) throw ScheduleError(fmt::format("{} {} 0: division by zero", a, operation));
    checked(a == std::numeric_limits<i64>::min() && b == -1, 0, operation, a, b);
    return remainder ? a % b : a / b;
}
i64 divide(i64 a, i64 b) { return divide(a, b, false, "/"); }
i64 remainder(i64 a, i64 b) { return divide(a, b, true, "%"); }

i64 binary(const std::string& op, i64 a, i64 b) {
    if (op == "+") return add(a, b);
    if (op == "-") return subtract(a, b);
    if (op == "*") return multiply(a, b);
    if (op == "/") return divide(a, b);
    if (op == "%") return remainder(a, b);
    if (op == "<") return a < b;
    if (op == "<=") return a <= b;
    if (op == ">") return a > b;
    if (op == ">=") return a >= b;
    if (op == "==") return a == b;
    if (op == "!=") return a != b;
    if (op == "^") return a ^ b;
    throw InternalError(fmt::format("operator {} is not in the evaluator", op));
}

// Walk of tiles: groups of `group` row tiles; inside a group rows first, then the next column. The same text stands in
// the tile machine.
i64 raster(bool want_row, i64 u, i64 rows, i64 cols, i64 group) {
    const i64 per = multiply(group, cols);
    const i64 first = multiply(divide(u, per), group);
    const i64 size = std::min(subtract(rows, first), group);
    const i64 w = remainder(u, per);
    return want_row ? add(first, remainder(w, size)) : divide(w, size);
}

i64 call(const std::string& name, const std::vector<i64>& v) {
    if (name == "min") return std::min(v[0], v[1]);
    if (name == "max") return std::max(v[0], v[1]);
    if (name == "ceil_div") return divide(subtract(add(v[0], v[1]), 1), v[1]);
    if (name == "raster_row" || name == "raster_col") return raster(name == "raster_row", v[0], v[1], v[2], v[3]);
    throw InternalError(fmt::format("function {} is not in the evaluator", name));
}

i64 look_up(const Expr::Lookup& lookup, const std::string& name, bool has_index, i64 index) {
    if (!lookup) throw ScheduleError(fmt::format("name {} is not known here", name));
    return lookup(name, has_index, index);
}

}  // namespace

struct Expr::Node {
    ExprKind kind;
    std::int64_t integer = 0;
    std::string text;
    std::vector<Expr> operands;
};

Expr::Expr(std::int64_t value) : node_(std::make_shared<Node>(Node{ExprKind::Integer, value, {}, {}})) {}

Expr Expr::make(ExprKind kind, std::string text, std::vector<Expr> operands) {
    return Expr(std::make_shared<Node>(Node{kind, 0, std::move(text), std::move(operands)}));
}

Expr Expr::name(std::string name) {
    if (!is_identifier(name)) throw InternalError(fmt::format("`{}` is not a name", name));
    return make(ExprKind::Name, std::move(name), {});
}

ExprKind Expr::kind() const { return node_->kind; }
const std::string& Expr::text() const { return node_->text; }
const std::vector<Expr>& Expr::operands() const { return node_->operands; }

std::int64_t Expr::integer() const {
    if (kind() != ExprKind::Integer) throw InternalError(fmt::format("`{}` is not an integer", print()));
    return node_->integer;
}

std::string Expr::print() const {
    std::string out;
    print_to(out, *this, kConditionalLevel);
    return out;
}

std::set<std::string> Expr::names() const {
    std::set<std::string> names;
    collect_names(*this, names);
    return names;
}

std::int64_t Expr::evaluate(const Lookup& lookup) const {
    const auto& args = operands();
    switch (kind()) {
        case ExprKind::Integer:
            return integer();
        case ExprKind::Name:
            return look_up(lookup, text(), false, 0);
        case ExprKind::Index:
            return look_up(lookup, text(), true, args[0].evaluate(lookup));
        case ExprKind::Field:
            return look_up(lookup, args[0].text() + "." + text(), false, 0);
        case ExprKind::Unary: {
            const i64 value = args[0].evaluate(lookup);
            return text() == "!" ? i64{value == 0} : subtract(0, value);
        }
        case ExprKind::Conditional:
            return args[args[0].evaluate(lookup) != 0 ? 1 : 2].evaluate(lookup);
        case ExprKind::Binary: {
            const i64 left = args[0].evaluate(lookup);
            if (text() == "&&") return left != 0 && args[1].evaluate(lookup) != 0;
            if (text() == "||") return left != 0 || args[1].evaluate(lookup) != 0;
            return binary(text(), left, args[1].evaluate(lookup));
        }
        case ExprKind::Call: {
            std::vector<i64> values;
            for (const Expr& arg : args) values.push_back(arg.evaluate(lookup));
            return call(text(), values);
        }
    }
    throw InternalError("expression of no kind");
}

Expr operator+(const Expr& a, const Expr& b) { return Expr::make(ExprKind::Binary, "+", {a, b}); }
Expr operator-(const Expr& a, const Expr& b) { return Expr::make(ExprKind::Binary, "-", {a, b}); }
Expr operator*(const Expr& a, const Expr& b) { return Expr::make(ExprKind::Binary, "*", {a, b}); }
Expr operator/(const Expr& a, const Expr& b) { return Expr::make(ExprKind::Binary, "/", {a, b}); }
Expr operator%(const Expr& a, const Expr& b) { return Expr::make(ExprKind::Binary, "%", {a, b}); }

}  // namespace plait
