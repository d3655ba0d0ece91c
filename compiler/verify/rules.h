// The rules, one file each. A rule returns all its findings; it never throws and never stops at the first.
#pragma once
#include "compiler/ir/pattern.h"
#include "compiler/verify/verify.h"

namespace plait {

struct Request {
    const Graph& graph;
    const Schedule& schedule;
    const Problem& problem;
    const Topology& topology;
    const Target& target;
};

inline constexpr std::int64_t kMaxTmaCoordinate = 0x7fffffff;  // coordinates are 32-bit, cuTensorMapEncodeTiled

// on the request
Diagnostics check_graph(const Request& request);   // the graph can be fused
Diagnostics check_dtypes(const Request& request);  // of tensors and the output
Diagnostics check_shapes(const Request& request);  // M, N, K
Diagnostics check_roles(const Request& request);   // placements fit topology and target, every role has work
Diagnostics check_tiles(const Request& request);   // tile knobs fit each other
Diagnostics check_pieces(const Request& request);  // copy buffers fit the operand slots they share
Diagnostics check_limits(const Request& request);  // launch arguments beside M have a limit
Diagnostics check_grouped(const Request& request); // a grouped matmul's operands and tiles
Diagnostics check_cluster(const Request& request);  // CTAs of a cluster keep step, and one fits on the target
Diagnostics check_attention(const Request& request);  // attention: tile knobs fit each other, sizes fit 32 bits

// on the plan
Diagnostics check_names(const Plan& plan);                            // every name resolves, none is declared twice
Diagnostics check_memory(const Plan& plan, const Target& target);     // shared memory, workspace overlap
Diagnostics check_registers(const Plan& plan, const Target& target);  // register file, accumulators
Diagnostics check_maps(const Plan& plan);                             // TMA limits
Diagnostics check_agents(const Plan& plan);                           // ops run in agents that can run them
Diagnostics check_edges(const Plan& plan);     // every wait has a signal, fences as the edge table says
Diagnostics check_barriers(const Plan& plan);  // arrivals match agents
Diagnostics check_reuse(const Plan& plan);     // bulk groups and slots: sources wait for their readers
Diagnostics check_cluster_plan(const Plan& plan);  // of all its CTAs, shares keep the swizzle
Diagnostics check_progress(const Plan& plan, const Target& target);  // abstract interpretation, see interpreter/

}  // namespace plait
