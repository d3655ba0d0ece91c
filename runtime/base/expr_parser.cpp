#include "runtime/base/expr_parser.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>

namespace plait {
namespace {

constexpr int kDepthLimit = 200;  // nesting; keeps hostile text from exhausting the stack

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Operator {
    std::string_view text;
    int level;
};
constexpr std::array kOperators = {
    Operator{"||", 2}, Operator{"&&", 3}, Operator{"==", 5}, Operator{"!=", 5}, Operator{"<=", 6},
    Operator{">=", 6}, Operator{"<", 6},  Operator{">", 6},  Operator{"^", 4},  Operator{"+", 7},
    Operator{"-", 7},  Operator{"*", 8},  Operator{"/", 8},  Operator{"%", 8},
};

struct Function {
    std::string_view name;
    std::size_t arity;
};
constexpr std::array kFunctions = {
    Function{"min", 2},        Function{"max", 2},        Function{"ceil_div", 2},
    Function{"raster_row", 4}, Function{"raster_col", 4},
};

}  // namespace

int binary_level(std::string_view op) {
    for (const Operator& o : kOperators)
        if (o.text == op) return o.level;
    throw InternalError(fmt::format("`{}` is not an operator", op));
}

bool is_identifier(std::string_view text) {
    if (text.empty() || !starts_name(text[0])) return false;
    for (const char c : text)
        if (!continues_name(c)) return false;
    return true;
}

ExprSyntaxError::ExprSyntaxError(std::string_view text, std::size_t column, const std::string& problem)
    : ScheduleError(fmt::format("bad expression `{}`, column {}: {}", text, column, problem)),
      column_(column),
      problem_(problem) {}

struct ExprParser {
    std::string_view text;
    std::size_t at = 0;
    int depth = 0;

    [[noreturn]] void fail(const std::string& problem) const { throw ExprSyntaxError(text, at + 1, problem); }
    std::string found() const { return at < text.size() ? fmt::format("`{}`", text[at]) : std::string("the end"); }

    void skip_space() {
        while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
    }
    bool take(char c) {
        skip_space();
        if (at >= text.size() || text[at] != c) return false;
        ++at;
        return true;
    }
    void expect(char c) {
        if (!take(c)) fail(fmt::format("expected `{}`, found {}", c, found()));
    }

    Expr conditional() {
        if (++depth > kDepthLimit) fail(fmt::format("nested more than {} deep", kDepthLimit));
        Expr result = binary(2);
        if (take('?')) {
            Expr then = conditional();
            expect(':');
            Expr otherwise = conditional();
            result = Expr::make(ExprKind::Conditional, "?", {result, then, otherwise});
        }
        --depth;
        return result;
    }

    const Operator* peek_operator() {
        skip_space();
        for (const Operator& o : kOperators)
            if (text.substr(at, o.text.size()) == o.text) return &o;
        return nullptr;
    }

    Expr binary(int level) {
        Expr left = unary();
        for (const Operator* o = peek_operator(); o != nullptr && o->level >= level; o = peek_operator()) {
            at += o->text.size();
            Expr right = binary(o->level + 1);
            left = Expr::make(ExprKind::Binary, std::string(o->text), {left, right});
        }
        return left;
    }

    Expr unary() {
        skip_space();
        if (at >= text.size() || (text[at] != '-' && text[at] != '!')) return primary();
        const char op = text[at++];
        skip_space();
        if (op == '-' && at < text.size() && is_digit(text[at])) return literal(true);
        if (++depth > kDepthLimit) fail(fmt::format("nested more than {} deep", kDepthLimit));
        Expr operand = unary();
        --depth;
        if (op == '-' && operand.kind() == ExprKind::Integer && operand.integer() != INT64_MIN)
            return Expr(-operand.integer());
        return Expr::make(ExprKind::Unary, std::string(1, op), {operand});
    }

    Expr literal(bool negative) {
        std::size_t end = at;
        while (end < text.size() && is_digit(text[end])) ++end;
        const std::string digits = (negative ? "-" : "") + std::string(text.substr(at, end - at));
        if (end < text.size() && starts_name(text[end]))
            fail(fmt::format("`{}{}` is neither a number nor a name", digits, text[end]));
        std::int64_t value = 0;
        const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (error != std::errc() || last != digits.data() + digits.size())
            fail(fmt::format("{} does not fit in 64 bits", digits));
        at = end;
        return Expr(value);
    }

    Expr primary() {
        skip_space();
        if (take('(')) {
            Expr inner = conditional();
            expect(')');
            return inner;
        }
        if (at < text.size() && is_digit(text[at])) return literal(false);
        if (at >= text.size() || !starts_name(text[at])) fail(fmt::format("expected a value, found {}", found()));
        const std::size_t start = at;
        const std::string name = identifier();
        if (take('(')) return call(name, start);
        if (take('[')) {
            Expr index = conditional();
            expect(']');
            return Expr::make(ExprKind::Index, name, {index});
        }
        if (take('.')) {
            skip_space();
            if (at >= text.size() || !starts_name(text[at])) fail(fmt::format("expected a field, found {}", found()));
            return Expr::make(ExprKind::Field, identifier(), {Expr::name(name)});
        }
        return Expr::name(name);
    }

    std::string identifier() {
        const std::size_t start = at;
        while (at < text.size() && continues_name(text[at])) ++at;
        return std::string(text.substr(start, at - start));
    }

    Expr call(const std::string& name, std::size_t start) {
        const Function* function = nullptr;
        for (const Function& f : kFunctions)
            if (f.name == name) function = &f;
        if (function == nullptr) {
            at = start;
            fail(fmt::format("no function `{}`, there are min, max, ceil_div, raster_row, raster_col", name));
        }
        std::vector<Expr> arguments;
        if (!take(')')) {
            do arguments.push_back(conditional());
            while (take(','));
            expect(')');
        }
        if (arguments.size() != function->arity) {
            at = start;
            fail(fmt::format("{} takes {} arguments, {} given", name, function->arity, arguments.size()));
        }
        return Expr::make(ExprKind::Call, name, std::move(arguments));
    }
};

Expr Expr::parse_prefix(std::string_view text, std::size_t* used) {
    ExprParser parser{text};
    Expr result = parser.conditional();
    parser.skip_space();
    *used = parser.at;
    return result;
}

Expr Expr::parse(std::string_view text) {
    std::size_t used = 0;
    Expr result = parse_prefix(text, &used);
    if (used != text.size()) {
        throw ExprSyntaxError(text, used + 1, fmt::format("expected an operator or the end, found `{}`", text[used]));
    }
    return result;
}

}  // namespace plait
