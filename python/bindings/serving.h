#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// The quick way of a wrapped module's call.
void bind_serving(nanobind::module_& module);

}  // namespace graphtune::python
