// What the simulation tests share: cases, compiled kernels, random inputs, a float64 reference and the error per tile.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/ir/plan.h"
#include "runtime/session/cluster.h"

namespace plait::testing {

struct Case {
    std::string name;
    std::string topology;                      // simulated label, 2x2
    std::int64_t m = 0, n = 0, k = 0;          // m: M of the launch and M_max unless m_max is given
    std::map<std::string, std::string> knobs;
    std::vector<std::string> pointwise;        // bias residual relu gelu gelu_tanh silu scale
    bool gather = true;                        // all_gather before the matmul
    bool transpose_b = false;
    std::int64_t m_max = 0;
    int sms = 3;                               // resident CTAs a rank
    std::string dtype = "bf16";
};

struct Kernel {
    Case c;
    Topology topology;
    Target target;
    Graph graph;
    Schedule schedule;
    Problem problem;
    Plan plan;
    Artifact artifact;
    HostModule module;
};

Graph make_graph(const Case& c);
Kernel lower_case(const Case& c);                       // up to the plan
void compile_case(Kernel& kernel);                      // plan -> artifact -> loaded module
Kernel build(const Case& c);                            // both

struct Outcome {
    double worst = 0;                                   // largest error of any output tile over its tolerance; <= 1 is right
    double worst_error = 0;                             // largest absolute error
    std::string fault;                                  // what was thrown, empty if nothing
    LaunchReport report;                                // of the last launch
    std::uint64_t digest = 0;                           // of the bits of all outputs of all launches
    bool ok() const { return fault.empty() && worst <= 1.0; }
};
// Launches on one cluster, one for each M of `rows`, with fresh random inputs and NaN-poisoned outputs. Faults and stalls
// of the simulation are caught and reported.
Outcome run(const Kernel& kernel, const std::vector<std::int64_t>& rows, const SimOptions& options);
// `launches` launches of the case's M, or of `m` where it is not negative.
Outcome run(const Kernel& kernel, std::uint64_t seed, NetworkContract network, int launches = 2, std::int64_t m = -1,
            bool trace = false);

std::uint16_t to_bits(float x, const std::string& dtype);
float from_bits(std::uint16_t x, const std::string& dtype);

}  // namespace plait::testing
