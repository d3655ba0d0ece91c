#include "compiler/ir/fused_pattern.h"

#include <fmt/format.h>

#include "compiler/ir/graph_matcher.h"

namespace plait {
namespace {

constexpr const char* kHint = "one kernel computes [all_gather ->] matmul [-> silu_mul] [-> pointwise ...] today";

class Matcher : GraphMatcher {
public:
    Matcher(const Graph& graph, Diagnostics* findings)
        : GraphMatcher(graph, findings, kHint, "shapes are written with M, N and K") {}

    std::optional<FusedPattern> run() {
        std::size_t i = 0;
        if (graph_.ops.empty()) report("graph has no ops", "/graph/ops", kHint);
        if (i < graph_.ops.size() && graph_.ops[i].op == "all_gather") gather(i++);
        if (i < graph_.ops.size())
            matmul(i++);
        else if (!graph_.ops.empty())
            report("graph has no matmul", "/graph/ops", kHint);
        if (pattern_.gated) gate(i++);
        for (; i < graph_.ops.size(); ++i) pointwise(i);
        check_output(value_);
        pattern_.output = graph_.output;
        pattern_.output_dtype = graph_.output_dtype;
        check_inputs(used_);
        if (reported()) return std::nullopt;
        return pattern_;
    }

private:
    void gather(std::size_t i) {
        const GraphOp& op = graph_.ops[i];
        pattern_.all_gather = true;
        pattern_.gather_source = op.source;
        gathered_ = op.result;
        if (op.dim != 0) {
            report(fmt::format("all_gather along dim {} is not fused, only dim 0 (rows)", op.dim), where(i),
                   "gather rows, or gather before this kernel");
        }
        if (!arity(i, 1)) return;
        gather_input_ = op.inputs[0];
        const GraphTensor* a = input(gather_input_, i, "input");
        if (a != nullptr && a->shard != 0) {
            report(fmt::format("all_gather of `{}`, which is {}", a->name,
                               a->shard < 0 ? "not sharded" : fmt::format("sharded along dim {}", a->shard)),
                   where(i), "declare the tensor with shard=0");
        }
    }

    void matmul(std::size_t i) {
        const GraphOp& op = graph_.ops[i];
        value_ = op.result;
        if (op.op != "matmul") {
            report(fmt::format("op {} {} `{}` cannot be fused, a matmul must stand here", i, op.op, op.result),
                   where(i), kHint);
            return;
        }
        pattern_.transpose_a = op.transpose_a;
        pattern_.transpose_b = op.transpose_b;
        pattern_.gated = i + 1 < graph_.ops.size() && graph_.ops[i + 1].op == "silu_mul";
        pattern_.matmul_source = op.source;
        if (!arity(i, 2)) return;
        if (pattern_.all_gather && op.inputs[0] != gathered_) {
            report(fmt::format("matmul multiplies `{}`, not the gathered `{}`", op.inputs[0], gathered_), where(i),
                   kHint);
        }
        pattern_.a = pattern_.all_gather ? gather_input_ : op.inputs[0];
        pattern_.b = op.inputs[1];
        const GraphTensor* a = input(pattern_.a, i, "left operand");
        const GraphTensor* b = input(pattern_.b, i, "right operand");
        if (a == nullptr || b == nullptr) return;
        using Dims = std::vector<std::string>;
        const std::string columns = pattern_.gated ? "2 * N" : "N";
        shape_is(*a, op.transpose_a ? Dims{"K", "M"} : Dims{"M", "K"}, i, "left operand");
        shape_is(*b, op.transpose_b ? Dims{columns, "K"} : Dims{"K", columns}, i, "right operand");
        if (op.transpose_a && pattern_.all_gather) {
            report(fmt::format("left operand `{}` is gathered and transposed", pattern_.a), where(i),
                   "shards arrive as whole rows of K: gather it row-major");
        }
        if (b->shard >= 0) {
            report(fmt::format("right operand `{}` is sharded along dim {}", b->name, b->shard), where(i),
                   "N counts the columns that this rank holds; declare it without shard");
        }
        const int rows = op.transpose_a ? 1 : 0;
        if (a->shard >= 0 && a->shard != rows) {
            report(fmt::format("left operand `{}` is sharded along dim {}, only rows may be", a->name, a->shard),
                   where(i), "a partial product over K needs a reduction, which is not fused today");
        }
        pattern_.row_shard = !pattern_.all_gather && a->shard == rows;
        pattern_.dtype = a->dtype;
    }

    void gate(std::size_t i) {
        const GraphOp& op = graph_.ops[i];
        pattern_.gate_source = op.source;
        if (arity(i, 1) && op.inputs[0] != value_) {
            report(fmt::format("silu_mul reads `{}`, not the matmul's `{}`", op.inputs[0], value_), where(i),
                   "intermediate results are not kept: the ops form one chain");
        }
        value_ = op.result;
    }

    void pointwise(std::size_t i) {
        const GraphOp& op = graph_.ops[i];
        if (op.op == "silu_mul") {
            report(fmt::format("silu_mul `{}` does not follow the matmul: both halves meet in its accumulators", op.result),
                   where(i), "make it the first op after the matmul; what comes before it is not fused");
            value_ = op.result;
            return;
        }
        if (std::optional<PointwiseOp> step = pointwise_step(i, value_, "matmul")) {
            const GraphTensor* tensor = step->tensor.empty() ? nullptr : input(step->tensor, i, "second input");
            if (tensor != nullptr) operand(*tensor, i);
            pattern_.pointwise.push_back(*step);
        }
        value_ = op.result;
    }

    void operand(const GraphTensor& t, std::size_t i) {
        if (graph_.ops[i].op == "bias") {
            shape_is(t, {"N"}, i, "bias");
            return;
        }
        const int shard = pattern_.row_shard ? 0 : -1;
        if (shape_is(t, {"M", "N"}, i, "residual") && t.shard != shard) {
            report(fmt::format("residual `{}` is sharded along dim {}, the output along {}", t.name, t.shard, shard),
                   where(i), "-1 is a tensor whole on each rank; it must hold the rows that the output holds");
        }
    }

    FusedPattern pattern_;
    std::string gathered_, gather_input_, value_;
};

}  // namespace

std::optional<FusedPattern> match_fused_pattern(const Graph& graph, Diagnostics* findings) {
    return Matcher(graph, findings).run();
}

}  // namespace plait
