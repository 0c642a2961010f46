#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// Makes the exception classes (Error, GraphtuneValueError …) and translates those of C++ to them.
void bind_errors(nanobind::module_& module);

}  // namespace graphtune::python
