#include "compiler/ir/graph_matcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plait {
namespace {

const std::set<std::string> kPointwise = {"bias", "residual", "scale", "relu", "gelu", "gelu_tanh", "silu", "cast"};

}  // namespace

GraphMatcher::GraphMatcher(const Graph& graph, Diagnostics* findings, std::string pattern, std::string names)
    : graph_(graph),
      pattern_hint_(std::move(pattern)),
      names_hint_(std::move(names)),
      findings_(findings),
      before_(findings->size()) {}

void GraphMatcher::report(std::string message, std::string where, std::string hint) {
    findings_->push_back({"check_graph", std::move(message), std::move(where), std::move(hint)});
}

std::string GraphMatcher::where(std::size_t i) const {
    const GraphOp& op = graph_.ops[i];
    return op.source.empty() ? fmt::format("/graph/ops/{}", i) : op.source;
}

bool GraphMatcher::arity(std::size_t i, std::size_t count) {
    const GraphOp& op = graph_.ops[i];
    if (op.inputs.size() == count) return true;
    report(fmt::format("{} takes {} input{}, got {}", op.op, count, count == 1 ? "" : "s", op.inputs.size()), where(i),
           "see the op's row in the op reference");
    return false;
}

const GraphTensor* GraphMatcher::input(const std::string& name, std::size_t i, const char* as) {
    used_.insert(name);
    const GraphTensor* tensor = graph_.find_input(name);
    if (tensor == nullptr) {
        report(fmt::format("{} of {} is `{}`, which is not an input of the graph", as, graph_.ops[i].op, name),
               where(i), pattern_hint_);
    }
    return tensor;
}

bool GraphMatcher::shape_is(const GraphTensor& tensor, const std::vector<std::string>& dims, std::size_t i,
                            const char* as) {
    std::vector<std::string> got;
    for (const Expr& e : tensor.shape) got.push_back(e.print());
    if (got == dims) return true;
    report(fmt::format("{} `{}` has shape [{}], {} takes [{}]", as, tensor.name, fmt::join(got, ", "), graph_.ops[i].op,
                       fmt::join(dims, ", ")),
           where(i), names_hint_);
    return false;
}

std::optional<PointwiseOp> GraphMatcher::pointwise_step(std::size_t i, const std::string& value, const char* after) {
    const GraphOp& op = graph_.ops[i];
    if (kPointwise.count(op.op) == 0) {
        report(fmt::format("op {} {} `{}` cannot be fused after the {}; pointwise ops are {}", i, op.op, op.result,
                           after, fmt::join(kPointwise, ", ")),
               where(i), pattern_hint_);
        return std::nullopt;
    }
    const bool binary = op.op == "bias" || op.op == "residual";
    PointwiseOp step{op.op, "", op.value, op.dtype, op.source};
    if (!arity(i, binary ? 2 : 1)) return step;
    if (op.inputs[0] != value) {
        report(fmt::format("{} reads `{}`, not the result before it, `{}`", op.op, op.inputs[0], value), where(i),
               "intermediate results are not kept: the ops form one chain");
    }
    if (binary) step.tensor = op.inputs[1];
    return step;
}

void GraphMatcher::check_output(const std::string& last) {
    if (last.empty() || graph_.output == last) return;
    report(fmt::format("output `{}` is not the result of the last op, `{}`", graph_.output, last), "/graph/output",
           "a kernel has one output: the last result of the chain");
}

void GraphMatcher::check_inputs(const std::set<std::string>& used) {
    std::set<std::string> names;
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
        const std::string& name = graph_.inputs[i].name;
        const std::string at = fmt::format("/graph/inputs/{}", i);
        if (!names.insert(name).second) report(fmt::format("two inputs are named `{}`", name), at, "rename one");
        if (!graph_.ops.empty() && used.count(name) == 0)
            report(fmt::format("input `{}` is not used by any op", name), at, "remove it");
    }
}

}  // namespace plait
