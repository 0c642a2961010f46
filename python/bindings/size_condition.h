#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

void bind_size_condition(nanobind::module_& module);

}  // namespace graphtune::python
