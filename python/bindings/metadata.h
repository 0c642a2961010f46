#pragma once

#include <optional>

#include <nanobind/nanobind.h>

#include "bindings/walk.h"
#include "graphtune/sample_metadata.h"

namespace graphtune::python {

/// Locator, InfoLevel, TensorSpec, AxisReport and SampleMetadata.
void bind_metadata(nanobind::module_& module);

}  // namespace graphtune::python
