// Mutants of a Plan: every ordering action and signal removed, narrowed in scope by one step, and moved past its
// neighbour. Nothing here knows a kernel: it walks the statements and reads their effects from plan_ops.def.
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/plan.h"

namespace plait::testing {

enum class Mutation { Remove, Narrow, MoveEarlier, MoveLater };

struct Mutant {
    Mutation mutation;
    std::string program;
    std::vector<int> path;      // statement index at each nesting level
    std::string what;           // "remove compute_loader/12.3 wait_flags edge=a_ready"
    std::string family;         // the same without the place
    std::string key;            // family and its number in the program: the same call in plans of other topologies
};

std::vector<Mutant> enumerate_mutants(const Plan& plan);
Plan apply(const Plan& plan, const Mutant& mutant);

}  // namespace plait::testing
