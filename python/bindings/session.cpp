// Session: one rank, on a GPU or on the host. The rendezvous is two python callables (torch.distributed's store), values
// are bytes.
#include "runtime/session/session.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "python/bindings/bindings.h"
#include "runtime/base/error.h"
#include "runtime/device/machine_topology.h"
#include "runtime/session/rank_hello.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace plait::python {

namespace {

// Runs a python callable from plait's code, which holds no GIL; a python exception becomes a TransportError.
template <class Function>
auto with_python(const std::string& key, Function function) {
    nb::gil_scoped_acquire acquire;
    try {
        return function();
    } catch (const nb::python_error& error) {
        throw TransportError("rendezvous key '" + key + "': " + error.what(), "is the store's process still alive on rank 0?");
    }
}

// The callables are released with the GIL held, wherever the last Session that uses them ends.
std::shared_ptr<nb::object> hold(nb::object object) {
    return {new nb::object(std::move(object)), [](nb::object* pointer) {
                nb::gil_scoped_acquire acquire;
                delete pointer;
            }};
}

std::shared_ptr<Rendezvous> make_rendezvous(nb::object set, nb::object get) {
    return make_callback_rendezvous(
        [set = hold(std::move(set))](const std::string& key, const std::string& value) {
            with_python(key, [&] { (*set)(key, nb::bytes(value.data(), value.size())); });
        },
        [get = hold(std::move(get))](const std::string& key, std::uint64_t timeout_ns) {
            return with_python(key, [&] {
                const nb::bytes value = nb::cast<nb::bytes>((*get)(key, timeout_ns));
                return std::string(value.c_str(), value.size());
            });
        });
}

SessionOptions make_options(std::uint64_t workspace_bytes, int sm_budget, double entry_deadline_s, double wait_deadline_s,
                            double rendezvous_timeout_s, const std::string& network) {
    if (network != "ordered" && network != "unordered")
        throw ArgumentError("network is '" + network + "'", "use ordered or unordered");
    SessionOptions options;
    options.workspace_bytes = workspace_bytes;
    options.sm_budget = sm_budget;
    options.entry_deadline_ns = static_cast<std::uint64_t>(entry_deadline_s * 1e9);
    options.wait_deadline_ns = static_cast<std::uint64_t>(wait_deadline_s * 1e9);
    options.rendezvous_timeout_ns = static_cast<std::uint64_t>(rendezvous_timeout_s * 1e9);
    options.network = network == "ordered" ? NetworkContract::Ordered : NetworkContract::Unordered;
    return options;
}

#ifdef PLAIT_WITH_CUDA
std::unique_ptr<Session> create(const Topology& topology, int rank, nb::object set, nb::object get, int device,
                                std::uint64_t workspace_bytes, int sm_budget, double entry_deadline_s, double wait_deadline_s,
                                double rendezvous_timeout_s, const std::string& network) {
    SessionOptions options = make_options(workspace_bytes, sm_budget, entry_deadline_s, wait_deadline_s, rendezvous_timeout_s, network);
    options.device = device;
    const std::shared_ptr<Rendezvous> rendezvous = make_rendezvous(std::move(set), std::move(get));
    nb::gil_scoped_release release;
    return Session::create(topology, rank, rendezvous, open_cuda_driver(), options);
}
#endif

#ifdef PLAIT_WITH_SIM
std::unique_ptr<Session> create_on_host(const Topology& topology, int rank, nb::object set, nb::object get, int threads,
                                        std::uint64_t workspace_bytes, int sm_budget, double entry_deadline_s,
                                        double wait_deadline_s, double rendezvous_timeout_s, const std::string& network) {
    SessionOptions options = make_options(workspace_bytes, sm_budget, entry_deadline_s, wait_deadline_s, rendezvous_timeout_s, network);
    options.host_threads = threads;
    const std::shared_ptr<Rendezvous> rendezvous = make_rendezvous(std::move(set), std::move(get));
    nb::gil_scoped_release release;
    return Session::create_on_host(topology, rank, rendezvous, load_host_code, options);
}
#endif

}  // namespace

void bind_session(nb::module_& module) {
    module.def("machine_identity", &machine_identity);
    nb::class_<Session> session(module, "Session");
#ifdef PLAIT_WITH_CUDA
    module.def("machine_topology", [](int nodes, int gpus_per_node) { return machine_topology(*open_cuda_driver(), nodes, gpus_per_node); },
               "nodes"_a, "gpus_per_node"_a);
    session.def_static("create", &create, "topology"_a, "rank"_a, "set"_a, "get"_a, "device"_a, "workspace_bytes"_a,
                       "sm_budget"_a, "entry_deadline_s"_a, "wait_deadline_s"_a, "rendezvous_timeout_s"_a, "network"_a);
#endif
#ifdef PLAIT_WITH_SIM
    session.def_static("create_on_host", &create_on_host, "topology"_a, "rank"_a, "set"_a, "get"_a, "threads"_a,
                       "workspace_bytes"_a, "sm_budget"_a, "entry_deadline_s"_a, "wait_deadline_s"_a, "rendezvous_timeout_s"_a, "network"_a);
#endif
    session
        .def("attach", &Session::attach, "artifact"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("launch",
             [](Session& session, int artifact, std::int64_t m, std::vector<TensorTuple> tensors, std::uintptr_t stream) {
                 nb::gil_scoped_release release;
                 session.launch(artifact, m, to_rank_tensors(std::move(tensors)), reinterpret_cast<void*>(stream));
             },
             "artifact"_a, "m"_a, "tensors"_a, "stream"_a)
        .def("check", &Session::check, nb::call_guard<nb::gil_scoped_release>())
        .def("abort", &Session::abort, nb::call_guard<nb::gil_scoped_release>())
        .def("poison", &Session::poison_receive_buffers, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("launches", &Session::launches);
}

}  // namespace plait::python
