#include "compiler/ir/grouped_pattern.h"

#include <fmt/format.h>

#include "compiler/ir/graph_matcher.h"

namespace plait {
namespace {

constexpr const char* kHint = "one kernel computes grouped_matmul [-> pointwise ...]";

class Matcher : GraphMatcher {
public:
    Matcher(const Graph& graph, Diagnostics* findings)
        : GraphMatcher(graph, findings, kHint, "shapes are written with M, N, K, experts, tokens and second_tokens") {}

    std::optional<GroupedPattern> run() {
        matmul();
        for (std::size_t i = 1; i < graph_.ops.size(); ++i) pointwise(i);
        check_output(value_);
        pattern_.output = graph_.output;
        pattern_.output_dtype = graph_.output_dtype;
        check_inputs(used_);
        if (reported()) return std::nullopt;
        return pattern_;
    }

private:
    // An input of op i, of this shape; its name.
    std::string input(std::size_t i, const std::string& name, const char* as, const std::vector<std::string>& dims,
                      const std::string& dtype = "") {
        const GraphTensor* tensor = GraphMatcher::input(name, i, as);
        if (tensor == nullptr) return name;
        shape_is(*tensor, dims, i, as);
        if (tensor->shard >= 0) {
            report(fmt::format("{} `{}` is sharded along dim {}", as, name, tensor->shard), where(i),
                   "a grouped matmul takes this rank's rows and experts; declare it without shard");
        }
        if (!dtype.empty() && tensor->dtype != dtype)
            report(fmt::format("{} `{}` has dtype {}, {} takes {}", as, name, tensor->dtype, graph_.ops[i].op, dtype),
                   where(i), "lists are 32-bit integers");
        return name;
    }

    void matmul() {
        const GraphOp& op = graph_.ops[0];
        if (op.transpose_a)
            report("grouped_matmul takes the rows of x as they lie, transpose_a is set", where(0), "pass x as [rows, K]");
        value_ = op.result;
        if (op.op != "grouped_matmul") {
            report(fmt::format("op 0 {} `{}` cannot be fused, a grouped_matmul must stand here", op.op, op.result),
                   where(0), kHint);
            return;
        }
        pattern_.transpose_b = op.transpose_b;
        pattern_.source = op.source;
        if (op.inputs.size() < 3 || op.inputs.size() > 5) {
            report(fmt::format("grouped_matmul takes 3 to 5 inputs, got {}", op.inputs.size()), where(0),
                   "x, w, offs, and where rows are gathered rows and a second x");
            return;
        }
        const bool gathers = op.inputs.size() > 3;
        pattern_.x = input(0, op.inputs[0], "left operand", {gathers ? "tokens" : "M", "K"});
        using Dims = std::vector<std::string>;
        pattern_.w =
            input(0, op.inputs[1], "weights", op.transpose_b ? Dims{"experts", "N", "K"} : Dims{"experts", "K", "N"});
        pattern_.offs = input(0, op.inputs[2], "ends of segments", {"experts"}, "i32");
        if (gathers) pattern_.rows = input(0, op.inputs[3], "row indices", {"M"}, "i32");
        if (op.inputs.size() > 4)
            pattern_.second = input(0, op.inputs[4], "second left operand", {"second_tokens", "K"});
        if (const GraphTensor* x = graph_.find_input(pattern_.x)) pattern_.dtype = x->dtype;
    }

    void pointwise(std::size_t i) {
        const GraphOp& op = graph_.ops[i];
        if (std::optional<PointwiseOp> step = pointwise_step(i, value_, "grouped_matmul")) {
            using Dims = std::vector<std::string>;
            if (!step->tensor.empty()) input(i, step->tensor, op.op.c_str(), op.op == "bias" ? Dims{"N"} : Dims{"M", "N"});
            pattern_.pointwise.push_back(*step);
        }
        value_ = op.result;
    }

    GroupedPattern pattern_;
    std::string value_;
};

}  // namespace

std::optional<GroupedPattern> match_grouped_pattern(const Graph& graph, Diagnostics* findings) {
    return Matcher(graph, findings).run();
}

}  // namespace plait
