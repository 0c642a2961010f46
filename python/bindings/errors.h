#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// Makes the exception classes (Error, GraphtuneValueError …) and translates those of C++ to them.
void bind_errors(nanobind::module_& module);

/// Sets the Python error for the exception that is being handled, as a bound function's caller
/// would get it: for functions that Python calls without nanobind. Call it in a catch block.
void set_python_error() noexcept;

}  // namespace graphtune::python
