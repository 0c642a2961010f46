#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// GraphSpec.
void bind_graph(nanobind::module_& module);

}  // namespace graphtune::python
