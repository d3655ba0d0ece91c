// What of a Graph one kernel computes today: each pattern has its own matcher, its own checks and its own passes.
// Lowering and the verifier read a graph through match_pattern alone.
#pragma once
#include <optional>
#include <variant>

#include "compiler/ir/attention_pattern.h"
#include "compiler/ir/fused_pattern.h"

namespace plait {

using Pattern = std::variant<FusedPattern, AttentionPattern>;

// Whether the graph is meant as attention, fit or not: rules of the fused pattern's sizes and knobs leave it alone.
bool is_attention(const Graph& graph);

// The pattern is chosen by the graph's ops, never by its name. Nothing where the graph does not fit; every reason is added
// to `findings` (rule check_graph).
std::optional<Pattern> match_pattern(const Graph& graph, Diagnostics* findings);

// The pattern where it is of kind T: rules that concern one kind skip the others, and graphs that do not fit.
template <class T>
std::optional<T> pattern_as(const Graph& graph) {
    Diagnostics unused;
    const std::optional<Pattern> pattern = match_pattern(graph, &unused);
    if (!pattern || !std::holds_alternative<T>(*pattern)) return std::nullopt;
    return std::get<T>(*pattern);
}

}  // namespace plait
