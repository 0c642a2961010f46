#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// Adds to_dict, from_dict and pickling to TensorSpec, SampleMetadata and GraphSpec.
void bind_json(nanobind::module_& module);

}  // namespace graphtune::python
