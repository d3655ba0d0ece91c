// Expressions with names resolved to slots, for programs that run many times.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/expr.h"

namespace plait::interpreter {

class CompiledExpr {
public:
    CompiledExpr() = default;
    // slot_of: position of a name's value; names of fields come as `pipe.slot`. Throws what slot_of throws.
    CompiledExpr(const Expr& expr, const std::function<int(const std::string&)>& slot_of);
    // ScheduleError on division by zero.
    std::int64_t evaluate(const std::int64_t* slots) const {
        return nodes_.empty() ? 0 : node(int(nodes_.size()) - 1, slots);
    }

private:
    enum class Kind {
        Integer,
        Slot,
        Negate,
        Not,
        Add,
        Sub,
        Mul,
        Div,
        Mod,
        Less,
        LessEqual,
        Greater,
        GreaterEqual,
        Equal,
        NotEqual,
        Xor,
        And,
        Or,
        Select,
        Min,
        Max,
        CeilDiv,
        RasterRow,
        RasterCol
    };
    struct Node {
        Kind kind;
        std::int64_t value;
        int operands[4];
    };
    int add(const Expr& expr, const std::function<int(const std::string&)>& slot_of);
    std::int64_t node(int index, const std::int64_t* slots) const;
    static Kind kind_of(const Expr& expr);

    std::vector<Node> nodes_;
};

}  // namespace plait::interpreter
