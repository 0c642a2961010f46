#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// Keys and copies of single objects: what tests compare between the two languages.
void bind_trees(nanobind::module_& module);

}  // namespace graphtune::python
