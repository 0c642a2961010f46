#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// Contract, what a graph's specification has of it, and the constants of calls.
void bind_contracts(nanobind::module_& module);

}  // namespace graphtune::python
