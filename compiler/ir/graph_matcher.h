// What the matchers of graph patterns share: findings of rule check_graph with their place in the graph, and checks of
// an op's inputs.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/diagnostic.h"
#include "compiler/ir/fused_pattern.h"
#include "compiler/ir/graph.h"

namespace plait {

class GraphMatcher {
protected:
    // Hints: what one kernel computes, and the names that shapes are written with.
    GraphMatcher(const Graph& graph, Diagnostics* findings, std::string pattern, std::string names);

    void report(std::string message, std::string where, std::string hint);
    bool reported() const { return findings_->size() != before_; }
    std::string where(std::size_t i) const;  // op i: the line of a traced program, else a JSON pointer

    bool arity(std::size_t i, std::size_t count);                                      // false: reported
    const GraphTensor* input(const std::string& name, std::size_t i, const char* as);  // nullptr: reported
    bool shape_is(const GraphTensor& tensor, const std::vector<std::string>& dims, std::size_t i, const char* as);
    // Op i as a pointwise op that reads `value`, the result of `after` or of a step behind it. Nothing where it is
    // none; its tensor is for the caller to look at.
    std::optional<PointwiseOp> pointwise_step(std::size_t i, const std::string& value, const char* after);
    void check_output(const std::string& last);
    void check_inputs(const std::set<std::string>& used);  // no two of one name, none left over

    const Graph& graph_;
    std::set<std::string> used_;  // what input() was asked for

private:
    const std::string pattern_hint_, names_hint_;
    Diagnostics* findings_;
    std::size_t before_;
};

}  // namespace plait
