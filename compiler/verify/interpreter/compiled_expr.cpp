#include "compiler/verify/interpreter/compiled_expr.h"

#include <algorithm>
#include <map>

#include "runtime/base/error.h"

namespace plait::interpreter {
namespace {

std::int64_t nonzero(std::int64_t divisor) {
    if (divisor == 0) throw ScheduleError("division by zero");
    return divisor;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / nonzero(b); }

struct Raster {
    std::int64_t row, col;
};

// As raster_row and raster_col of templates/arithmetic.h: groups of row tiles, inside a group rows first.
Raster raster(std::int64_t u, std::int64_t rows, std::int64_t cols, std::int64_t group) {
    const std::int64_t per = nonzero(group * cols), first = u / per * group;
    const std::int64_t size = nonzero(std::min(rows - first, group)), w = u % per;
    return {first + w % size, w / size};
}

}  // namespace

CompiledExpr::CompiledExpr(const Expr& expr, const std::function<int(const std::string&)>& slot_of) {
    add(expr, slot_of);
}

CompiledExpr::Kind CompiledExpr::kind_of(const Expr& e) {
    static const std::map<std::string, Kind> binary = {
        {"+", Kind::Add},           {"-", Kind::Sub},    {"*", Kind::Mul},        {"/", Kind::Div},
        {"%", Kind::Mod},           {"<", Kind::Less},   {"<=", Kind::LessEqual}, {">", Kind::Greater},
        {">=", Kind::GreaterEqual}, {"==", Kind::Equal}, {"!=", Kind::NotEqual},  {"^", Kind::Xor},
        {"&&", Kind::And},          {"||", Kind::Or}};
    static const std::map<std::string, Kind> calls = {{"min", Kind::Min},
                                                      {"max", Kind::Max},
                                                      {"ceil_div", Kind::CeilDiv},
                                                      {"raster_row", Kind::RasterRow},
                                                      {"raster_col", Kind::RasterCol}};
    if (e.kind() == ExprKind::Unary) return e.text() == "-" ? Kind::Negate : Kind::Not;
    if (e.kind() == ExprKind::Conditional) return Kind::Select;
    const auto& table = e.kind() == ExprKind::Call ? calls : binary;
    const auto found = table.find(e.text());
    if (found == table.end()) throw ScheduleError("expression `" + e.print() + "` cannot be interpreted");
    return found->second;
}

int CompiledExpr::add(const Expr& e, const std::function<int(const std::string&)>& slot_of) {
    Node n{Kind::Integer, 0, {0, 0, 0, 0}};
    if (e.kind() == ExprKind::Integer)
        n.value = e.integer();
    else if (e.kind() == ExprKind::Name)
        n.kind = Kind::Slot, n.value = slot_of(e.text());
    else if (e.kind() == ExprKind::Field)
        n.kind = Kind::Slot, n.value = slot_of(e.operands()[0].text() + "." + e.text());
    else {
        n.kind = kind_of(e);
        for (std::size_t i = 0; i < e.operands().size() && i < 4; ++i) n.operands[i] = add(e.operands()[i], slot_of);
    }
    nodes_.push_back(n);
    return int(nodes_.size()) - 1;
}

std::int64_t CompiledExpr::node(int index, const std::int64_t* slots) const {
    const Node& n = nodes_[index];
    const auto at = [&](int i) { return node(n.operands[i], slots); };
    switch (n.kind) {
        case Kind::Integer:
            return n.value;
        case Kind::Slot:
            return slots[n.value];
        case Kind::Negate:
            return -at(0);
        case Kind::Not:
            return !at(0);
        case Kind::Add:
            return at(0) + at(1);
        case Kind::Sub:
            return at(0) - at(1);
        case Kind::Mul:
            return at(0) * at(1);
        case Kind::Div:
            return at(0) / nonzero(at(1));
        case Kind::Mod:
            return at(0) % nonzero(at(1));
        case Kind::Less:
            return at(0) < at(1);
        case Kind::LessEqual:
            return at(0) <= at(1);
        case Kind::Greater:
            return at(0) > at(1);
        case Kind::GreaterEqual:
            return at(0) >= at(1);
        case Kind::Equal:
            return at(0) == at(1);
        case Kind::NotEqual:
            return at(0) != at(1);
        case Kind::Xor:
            return at(0) ^ at(1);
        case Kind::And:
            return at(0) && at(1);
        case Kind::Or:
            return at(0) || at(1);
        case Kind::Select:
            return at(0) ? at(1) : at(2);
        case Kind::Min:
            return std::min(at(0), at(1));
        case Kind::Max:
            return std::max(at(0), at(1));
        case Kind::CeilDiv:
            return ceil_div(at(0), at(1));
        case Kind::RasterRow:
            return raster(at(0), at(1), at(2), at(3)).row;
        case Kind::RasterCol:
            return raster(at(0), at(1), at(2), at(3)).col;
    }
    return 0;
}

}  // namespace plait::interpreter
