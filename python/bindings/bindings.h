// One function per part of plait._core. Only public headers are included here; no logic beyond converting types.
#pragma once
#include <nanobind/nanobind.h>

#include <string>
#include <tuple>
#include <vector>

#include "runtime/session/cluster.h"

namespace plait::python {

void bind_errors(nanobind::module_& module);
void bind_compiler(nanobind::module_& module);
void bind_simulation(nanobind::module_& module);
void bind_session(nanobind::module_& module);
void bind_tools(nanobind::module_& module);

// An artifact's host code, callable: by the JIT, or from a kernel.so. CompileError where this build can do neither.
HostModule load_host_code(const Artifact& artifact);

// (pointer, dtype, shape, pitch in bytes or 0): plait.tensor.View.as_tuple()
using TensorTuple = std::tuple<std::uintptr_t, std::string, std::vector<std::int64_t>, std::int64_t>;
inline RankTensors to_rank_tensors(std::vector<TensorTuple> tuples) {
    RankTensors tensors;
    for (auto& [pointer, dtype, shape, pitch] : tuples)
        tensors.push_back({reinterpret_cast<void*>(pointer), std::move(dtype), std::move(shape), pitch});
    return tensors;
}

}  // namespace plait::python
