#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// The tensors of calls and results in canonical order, and calls with other tensors.
void bind_call_tensors(nanobind::module_& module);

}  // namespace graphtune::python
