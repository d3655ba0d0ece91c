// Integer expressions: the one language of sizes, indices and conditions in plans, manifests and emitted source.
//
// Grammar (C's, so that the printed form is valid C++): integers, names, name[expr], name.field, + - * / %, comparisons,
// ^ && || !, c ? a : b, and calls of min, max, ceil_div, raster_row, raster_col. Values are signed 64-bit; division by
// zero, overflow and unknown names throw ScheduleError; && || and ?: evaluate only what they need. Printing is
// canonical, with the fewest parentheses that keep the tree: parse(print(e)) == e.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"

namespace plait {

// text() and operands() by kind:
//   Integer      -               -
//   Name         name            -
//   Index        name            {index}
//   Field        field           {Name}
//   Unary        - or !          {operand}     a minus before a literal is folded into the Integer
//   Binary       operator        {left, right}
//   Conditional  ?               {condition, then, else}
//   Call         callee          arguments
enum class ExprKind { Integer, Name, Index, Field, Unary, Binary, Conditional, Call };

// Text that is not an expression; column counts from 1.
class ExprSyntaxError : public ScheduleError {
public:
    ExprSyntaxError(std::string_view text, std::size_t column, const std::string& problem);
    std::size_t column() const { return column_; }
    const std::string& problem() const { return problem_; }

private:
    std::size_t column_;
    std::string problem_;
};

class Expr {
public:
    Expr() : Expr(0) {}
    Expr(std::int64_t value);                  // NOLINT: integers are expressions
    Expr(int value) : Expr(std::int64_t{value}) {}
    Expr(const char* text) : Expr(parse(text)) {}         // NOLINT: so that lowering reads like the plan
    Expr(const std::string& text) : Expr(parse(text)) {}  // NOLINT
    static Expr parse(std::string_view text);   // throws ExprSyntaxError
    // Longest expression at the start of text; *used: characters read. For text forms with expressions inside.
    static Expr parse_prefix(std::string_view text, std::size_t* used);
    static Expr name(std::string name);

    std::string print() const;
    bool operator==(const Expr& other) const { return print() == other.print(); }

    // Lookup of `name` (or `name.field`), or of `name[index]` where has_index. nullptr: no name is known.
    using Lookup = std::function<std::int64_t(const std::string& name, bool has_index, std::int64_t index)>;
    std::int64_t evaluate(const Lookup& lookup) const;
    // Names that the value depends on (of an Index as `name`, of a Field as `name.field`).
    std::set<std::string> names() const;

    ExprKind kind() const;
    std::int64_t integer() const;              // of Integer
    const std::string& text() const;           // name, field, operator or callee
    const std::vector<Expr>& operands() const;

    struct Node;

private:
    explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
    static Expr make(ExprKind kind, std::string text, std::vector<Expr> operands);
    std::shared_ptr<const Node> node_;
    friend struct ExprParser;
    friend Expr operator+(const Expr&, const Expr&);
    friend Expr operator-(const Expr&, const Expr&);
    friend Expr operator*(const Expr&, const Expr&);
    friend Expr operator/(const Expr&, const Expr&);
    friend Expr operator%(const Expr&, const Expr&);
};

Expr operator+(const Expr&, const Expr&);
Expr operator-(const Expr&, const Expr&);
Expr operator*(const Expr&, const Expr&);
Expr operator/(const Expr&, const Expr&);
Expr operator%(const Expr&, const Expr&);

}  // namespace plait
