#include "compiler/passes/pointwise.h"

#include <fmt/format.h>

namespace plait {
namespace {

std::string decimal(double value) {
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

}  // namespace

void lower_pointwise(Block& b, const std::vector<PointwiseOp>& ops, const std::string& acc, const std::string& row,
                     const std::string& col) {
    std::vector<std::pair<PointwiseOp, std::vector<std::string>>> lines;
    for (const PointwiseOp& op : ops) {
        if (op.function == "cast" && op.dtype == "f32") continue;  // x is f32
        std::string value = op.function == "scale" ? decimal(op.value) : op.function == "cast" ? op.dtype : "";
        lines.push_back({op, {op.function, op.tensor, value}});
    }
    if (lines.empty()) return;
    b.with_body(Op::Map, {acc, row, col}, [&](Block& body) {
        for (auto& [op, operands] : lines) {
            if (!op.source.empty()) body.note(op.source);
            body.add(Op::Pointwise, operands);
        }
    });
}

}  // namespace plait
