#include "compiler/passes/block.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/edge_table.h"
#include "runtime/base/error.h"

namespace plait {

std::string slot(const char* array, const char* pipe, std::int64_t each, std::int64_t n) {
    const std::string first = each == 1 ? fmt::format("{}.slot", pipe) : fmt::format("{}.slot * {}", pipe, each);
    return n == 0 ? fmt::format("{}[{}]", array, first) : fmt::format("{}[{} + {}]", array, first, n);
}
namespace {

bool contains(const std::vector<Op>& ops, Op op) { return std::find(ops.begin(), ops.end(), op) != ops.end(); }

const EdgeRow& row_of(const EdgeDef& edge) {
    const EdgeRow* row = find_edge_row(edge);
    if (row == nullptr) throw InternalError("edge " + describe(edge) + " has no row in the edge table");
    return *row;
}

}  // namespace

Block& Block::add(Op op, std::vector<std::string> operands) {
    statements_.push_back(make_statement(op, std::move(operands)));
    statements_.back().comment = std::exchange(comment_, "");
    return *this;
}

Block& Block::let(const std::string& name, const std::string& value) { return add(Op::Let, {name, value}); }

Block& Block::note(const std::string& comment) {
    comment_ = comment;
    return *this;
}

Block& Block::with_body(Op op, std::vector<std::string> operands, const Body& body) {
    Block inner(plan_);
    body(inner);
    statements_.push_back(make_statement(op, std::move(operands), inner.take()));
    statements_.back().comment = std::exchange(comment_, "");
    return *this;
}

Block& Block::loop(const Body& body) { return with_body(Op::Loop, {}, body); }

Block& Block::for_each(const std::string& var, const std::string& from, const std::string& to, const std::string& step,
                       const Body& body) {
    return with_body(Op::For, {var, from, to, step}, body);
}

Block& Block::when(const std::string& condition, const Body& body) { return with_body(Op::If, {condition}, body); }

const EdgeDef& Block::edge(const std::string& name) const {
    for (const EdgeDef& edge : plan_.edges) {
        if (edge.name == name) return edge;
    }
    throw InternalError("lowering uses edge " + name + ", which the plan does not have");
}

// Appends scope and edge where the op's row has them: both stand at the end of every row.
std::vector<std::string> Block::complete(Op op, std::vector<std::string> operands, const EdgeDef& edge) const {
    for (const OperandSpec& spec : op_spec(op).operands) {
        if (spec.name == "scope")
            operands.push_back(scope_word(op == Op::RelayTake || op == Op::RelayForward ? EdgeScope::Gpu : edge.scope));
        if (spec.kind == 'g') operands.push_back(edge.name);
    }
    return operands;
}

Block& Block::before_signals(const std::string& name) {
    for (Op op : row_of(edge(name)).producer_fences) {
        if (op == Op::BulkWait)
            add(op, {"0"});
        else if (op != Op::MmaWait && op != Op::GatherWait)
            add(op);  // programs place their own mma_wait, which names an accumulator, and gather_wait, which lags
    }
    return *this;
}

Block& Block::signal(Op op, std::vector<std::string> operands, const std::string& name) {
    const EdgeDef& e = edge(name);
    if (!contains(row_of(e).signals, op))
        throw InternalError(fmt::format("{} cannot signal edge {}", op_spec(op).mnemonic, describe(e)));
    return add(op, complete(op, std::move(operands), e));
}

Block& Block::wait(Op op, std::vector<std::string> operands, const std::string& name) {
    const EdgeDef& e = edge(name);
    const EdgeRow& row = row_of(e);
    if (!contains(row.waits, op))
        throw InternalError(fmt::format("{} cannot wait on edge {}", op_spec(op).mnemonic, describe(e)));
    add(op, complete(op, std::move(operands), e));
    for (Op fence : row.consumer_fences) add(fence);
    return *this;
}

}  // namespace plait
