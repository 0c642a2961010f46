#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// Miss, RoutedGraph, TunedRouter, and the tensors of calls in canonical order.
void bind_routing(nanobind::module_& module);

}  // namespace graphtune::python
