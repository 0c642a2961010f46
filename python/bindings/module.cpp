#include <nanobind/nanobind.h>

#include "bindings/argument_change.h"
#include "bindings/batch.h"
#include "bindings/bundles.h"
#include "bindings/call_tensors.h"
#include "bindings/contracts.h"
#include "bindings/engines.h"
#include "bindings/errors.h"
#include "bindings/graph.h"
#include "bindings/json.h"
#include "bindings/metadata.h"
#include "bindings/python_values.h"
#include "bindings/recording.h"
#include "bindings/routing.h"
#include "bindings/serving.h"
#include "bindings/size_condition.h"
#include "bindings/trees.h"
#include "bindings/type_registry.h"
#include "graphtune/version.h"

NB_MODULE(_core, module) {
  namespace python = graphtune::python;
  // What torch and the registries hold lives until the process ends.
  nanobind::set_leak_warnings(false);
  module.doc() = "graphtune's core. Use the names that the package graphtune exports.";
  python::bind_errors(module);
  python::bind_batch_size(module);
  python::bind_metadata(module);
  python::bind_batch(module);
  python::bind_graph(module);
  python::bind_json(module);
  python::bind_recording(module);
  python::bind_trees(module);
  python::bind_engines(module);
  python::bind_size_condition(module);
  python::bind_argument_changes(module);
  python::bind_call_tensors(module);
  python::bind_contracts(module);
  python::bind_routing(module);
  python::bind_serving(module);
  python::bind_bundles(module);
  module.attr("__version__") = GRAPHTUNE_VERSION;
  module.def("forget_types", &python::forget_types,
             "Types are classified anew: after one was registered.");
}
