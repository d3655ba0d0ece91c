#include "python/bindings/bindings.h"

NB_MODULE(_core, module) {
    nanobind::set_leak_warnings(false);   // a Session that outlives the interpreter's shutdown is no finding
    plait::python::bind_errors(module);
    plait::python::bind_compiler(module);
    plait::python::bind_simulation(module);
    plait::python::bind_session(module);
    plait::python::bind_tools(module);
}
