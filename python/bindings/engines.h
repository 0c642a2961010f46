#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// BackendInfo, list_backends, Engine, Comparison, compare, default_tolerance, read_safetensors,
/// write_safetensors.
void bind_engines(nanobind::module_& module);

}  // namespace graphtune::python
