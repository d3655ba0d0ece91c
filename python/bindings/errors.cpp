// plait::Error -> the class of plait.errors with the same name.
#include "runtime/base/error.h"

#include <nanobind/stl/string.h>

#include "python/bindings/bindings.h"

namespace nb = nanobind;

namespace plait::python {

void bind_errors(nb::module_&) {
    nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
        try {
            std::rethrow_exception(pointer);
        } catch (const Error& error) {
            nb::object errors = nb::module_::import_("plait.errors");
            nb::object type = nb::getattr(errors, error.kind().c_str(), errors.attr("Error"));
            nb::object value = type(error.message(), error.hint());
            PyErr_SetObject(type.ptr(), value.ptr());
        }
    });
}

}  // namespace plait::python
