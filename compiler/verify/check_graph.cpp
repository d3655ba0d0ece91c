// The graph is a chain that one kernel computes, with numerics that the machine has.
#include <fmt/format.h>

#include "compiler/verify/rules.h"

namespace plait {

Diagnostics check_graph(const Request& request) {
    Diagnostics findings;
    match_pattern(request.graph, &findings);
    const Numerics& numerics = request.graph.numerics;
    if (numerics.accumulate != "f32") {
        findings.push_back({"check_graph",
                            fmt::format("accumulation in {} is not available, only f32", numerics.accumulate),
                            "/graph/numerics/accumulate", "use f32"});
    }
    if (numerics.k_order != "ascending") {
        findings.push_back({"check_graph", fmt::format("k order {} is not available, only ascending", numerics.k_order),
                            "/graph/numerics/k_order", "use ascending"});
    }
    return findings;
}

}  // namespace plait
