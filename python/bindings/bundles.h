#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// write_bundle, read_bundle and what a loaded bundle gives.
void bind_bundles(nanobind::module_& module);

}  // namespace graphtune::python
