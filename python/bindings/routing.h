#pragma once

#include <nanobind/nanobind.h>

namespace graphtune::python {

/// Miss, RoutedGraph, Router, TunedRouter.
void bind_routing(nanobind::module_& module);

}  // namespace graphtune::python
