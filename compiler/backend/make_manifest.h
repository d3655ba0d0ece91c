// The manifest of a Plan: what the runtime must know to bind and launch it. Results of the backend are filled in later.
#pragma once
#include "compiler/ir/graph.h"
#include "compiler/ir/plan.h"
#include "runtime/artifact/artifact.h"

namespace plait {

Manifest make_manifest(const Plan& plan, const Problem& problem, const std::string& semantics);

}  // namespace plait
