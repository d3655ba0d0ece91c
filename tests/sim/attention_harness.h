// What the attention tests share: cases, compiled kernels, random inputs, a float64 reference and the largest error.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/ir/plan.h"
#include "runtime/session/cluster.h"
#include "tests/compiler/passes/attention_request.h"

namespace plait::testing {

struct AttentionShape {
    std::int64_t m = 0, keys = 0, batch = 1;
};

struct AttentionKernel {
    AttentionRequest request;
    Plan plan;
    Artifact artifact;
    HostModule module;
};
AttentionKernel lower_attention(const AttentionRequest& request);  // up to the plan
void compile_attention(AttentionKernel& kernel);                   // plan -> loaded module
AttentionKernel build_attention(const AttentionRequest& request);  // both

struct AttentionOutcome {
    double worst = 0;             // largest error of any element over its bound; <= 1 is right
    std::string fault;            // what was thrown, empty if nothing
    std::uint64_t digest = 0;     // of the bits of result and log-sum-exp of all launches
    bool ok() const { return fault.empty() && worst <= 1.0; }
};
// Launches on one cluster, one for each shape, with fresh inputs that follow from `data_seed` and outputs poisoned with
// NaN. Faults and stalls of the simulation are caught and reported.
AttentionOutcome run_attention(const AttentionKernel& kernel, const std::vector<AttentionShape>& shapes,
                               const SimOptions& options, std::uint64_t data_seed);

}  // namespace plait::testing
