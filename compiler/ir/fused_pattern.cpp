#include "compiler/ir/fused_pattern.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace plait {
namespace {

const std::set<std::string> kPointwise = {"bias", "residual", "scale", "relu", "gelu", "gelu_tanh", "silu", "cast"};
constexpr const char* kHint = "one kernel computes [all_gather ->] matmul [-> silu_mul] [-> pointwise ...] today";

class Matcher {
public:
    Matcher(const Graph& graph, Diagnostics* findings) : graph_(graph), findings_(findings) {}

    std::optional<FusedPattern> run() {
        const std::size_t before = findings_->size();
        std::size_t i = 0;
        if (graph_.ops.empty()) report("graph has no ops", "/graph/ops", kHint);
        if (i < graph_.ops.size() && graph_.ops[i].op == "all_gather") gather(i++);
        if (i < graph_.ops.size())
            matmul(i++);
        else if (!graph_.ops.empty())
            report("graph has no matmul", "/graph/ops", kHint);
        if (pattern_.gated) gate(i++);
        for (; i < graph_.ops.size(); ++i) pointwise(i);
        if (!value_.empty() && graph_.output != value_) {
            report(fmt::format("output `{}` is not the result of the last op, `{}`", graph_.output, value_),
                   "/graph/output", "a kernel has one output: the last result of the chain");
        }
        pattern_.output = graph_.output;
        pattern_.output_dtype = graph_.output_dtype;
        unused_inputs();
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
    // Checks the number of inputs of op i; false where it is wrong.
    bool arity(std::size_t i, std::size_t count) {
        const GraphOp& op = graph_.ops[i];
        if (op.inputs.size() == count) return true;
        report(fmt::format("{} takes {} input{}, got {}", op.op, count, count == 1 ? "" : "s", op.inputs.size()),
               where(i), "see the op's row in the op reference");
        return false;
    }
    bool shape_is(const GraphTensor& tensor, std::vector<std::string> dims, std::size_t i, const char* as) {
        std::vector<std::string> got;
        for (const Expr& e : tensor.shape) got.push_back(e.print());
        if (got == dims) return true;
        report(fmt::format("{} `{}` has shape [{}], {} takes [{}]", as, tensor.name, fmt::join(got, ", "),
                           graph_.ops[i].op, fmt::join(dims, ", ")),
               where(i), "shapes are written with M, N and K");
        return false;
    }
    const GraphTensor* input(const std::string& name, std::size_t i, const char* as) {
        used_.insert(name);
        const GraphTensor* tensor = graph_.find_input(name);
        if (tensor == nullptr) {
            report(fmt::format("{} of {} is `{}`, which is not an input of the graph", as, graph_.ops[i].op, name),
                   where(i), kHint);
        }
        return tensor;
    }

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
        if (kPointwise.count(op.op) == 0) {
            report(fmt::format("op {} {} `{}` cannot be fused after the matmul; pointwise ops are {}", i, op.op,
                               op.result, fmt::join(kPointwise, ", ")),
                   where(i), kHint);
            value_ = op.result;
            return;
        }
        const bool binary = op.op == "bias" || op.op == "residual";
        PointwiseOp step{op.op, "", op.value, op.dtype, op.source};
        if (arity(i, binary ? 2 : 1)) {
            if (op.inputs[0] != value_) {
                report(fmt::format("{} reads `{}`, not the result before it, `{}`", op.op, op.inputs[0], value_),
                       where(i), "intermediate results are not kept: the ops form one chain");
            }
            if (binary) {
                step.tensor = op.inputs[1];
                const GraphTensor* t = input(step.tensor, i, "second input");
                if (t != nullptr) operand(*t, i);
            }
        }
        pattern_.pointwise.push_back(step);
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

    void unused_inputs() {
        std::set<std::string> names;
        for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
            const std::string& name = graph_.inputs[i].name;
            const std::string at = fmt::format("/graph/inputs/{}", i);
            if (!names.insert(name).second) report(fmt::format("two inputs are named `{}`", name), at, "rename one");
            if (!graph_.ops.empty() && used_.count(name) == 0) {
                report(fmt::format("input `{}` is not used by any op", name), at, "remove it");
            }
        }
    }

    const Graph& graph_;
    Diagnostics* findings_;
    FusedPattern pattern_;
    std::string gathered_, gather_input_, value_;
    std::set<std::string> used_;
};

}  // namespace

std::optional<FusedPattern> match_fused_pattern(const Graph& graph, Diagnostics* findings) {
    return Matcher(graph, findings).run();
}

}  // namespace plait
