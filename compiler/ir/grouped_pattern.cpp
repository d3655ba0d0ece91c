#include "compiler/ir/grouped_pattern.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace plait {
namespace {

const std::set<std::string> kPointwise = {"bias", "residual", "scale", "relu", "gelu", "gelu_tanh", "silu", "cast"};
constexpr const char* kHint = "one kernel computes grouped_matmul [-> pointwise ...]";

class Matcher {
public:
    Matcher(const Graph& graph, Diagnostics* findings) : graph_(graph), findings_(findings) {}

    std::optional<GroupedPattern> run() {
        const std::size_t before = findings_->size();
        matmul();
        for (std::size_t i = 1; i < graph_.ops.size(); ++i) pointwise(i);
        if (graph_.output != value_) {
            report(fmt::format("output `{}` is not the result of the last op, `{}`", graph_.output, value_),
                   "/graph/output", "a kernel has one output: the last result of the chain");
        }
        pattern_.output = graph_.output;
        pattern_.output_dtype = graph_.output_dtype;
        inputs();
        if (findings_->size() != before) return std::nullopt;
        return pattern_;
    }

private:
    void report(std::string message, std::string where, std::string hint) {
        findings_->push_back({"check_graph", std::move(message), std::move(where), std::move(hint)});
    }
    std::string where(std::size_t i) const {
        const GraphOp& op = graph_.ops[i];
        return op.source.empty() ? fmt::format("/graph/ops/{}", i) : op.source;
    }

    // An input of op i, of this shape; its name.
    std::string input(std::size_t i, const std::string& name, const char* as, const std::vector<std::string>& dims,
                      const std::string& dtype = "") {
        used_.insert(name);
        const GraphTensor* tensor = graph_.find_input(name);
        if (tensor == nullptr) {
            report(fmt::format("{} of {} is `{}`, which is not an input of the graph", as, graph_.ops[i].op, name),
                   where(i), kHint);
            return name;
        }
        std::vector<std::string> got;
        for (const Expr& e : tensor->shape) got.push_back(e.print());
        if (got != dims) {
            report(fmt::format("{} `{}` has shape [{}], {} takes [{}]", as, name, fmt::join(got, ", "),
                               graph_.ops[i].op, fmt::join(dims, ", ")),
                   where(i), "shapes are written with M, N, K, experts, tokens and second_tokens");
        }
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
        if (kPointwise.count(op.op) == 0) {
            report(fmt::format("op {} {} `{}` cannot be fused after the grouped_matmul; pointwise ops are {}", i, op.op,
                               op.result, fmt::join(kPointwise, ", ")),
                   where(i), kHint);
            value_ = op.result;
            return;
        }
        const std::size_t count = op.op == "bias" || op.op == "residual" ? 2 : 1;
        PointwiseOp step{op.op, "", op.value, op.dtype, op.source};
        if (op.inputs.size() != count) {
            report(fmt::format("{} takes {} input{}, got {}", op.op, count, count == 1 ? "" : "s", op.inputs.size()),
                   where(i), "see the op's row in the op reference");
        } else {
            if (op.inputs[0] != value_) {
                report(fmt::format("{} reads `{}`, not the result before it, `{}`", op.op, op.inputs[0], value_),
                       where(i), "intermediate results are not kept: the ops form one chain");
            }
            using Dims = std::vector<std::string>;
            if (count == 2)
                step.tensor = input(i, op.inputs[1], op.op.c_str(), op.op == "bias" ? Dims{"N"} : Dims{"M", "N"});
        }
        pattern_.pointwise.push_back(step);
        value_ = op.result;
    }

    void inputs() {
        std::set<std::string> names;
        for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
            const std::string& name = graph_.inputs[i].name;
            const std::string at = fmt::format("/graph/inputs/{}", i);
            if (!names.insert(name).second) report(fmt::format("two inputs are named `{}`", name), at, "rename one");
            if (used_.count(name) == 0) report(fmt::format("input `{}` is not used by any op", name), at, "remove it");
        }
    }

    const Graph& graph_;
    Diagnostics* findings_;
    GroupedPattern pattern_;
    std::string value_;
    std::set<std::string> used_;
};

}  // namespace

std::optional<GroupedPattern> match_grouped_pattern(const Graph& graph, Diagnostics* findings) {
    return Matcher(graph, findings).run();
}

}  // namespace plait
