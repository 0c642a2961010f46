#include "bindings/routing.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/plan_conversion.h"
#include "bindings/stub_types.h"
#include "bindings/tensor_access.h"
#include "bindings/tuned_router.h"
#include "graphtune/engines/registry.h"
#include "graphtune/error.h"
#include "graphtune/graph_spec.h"
#include "graphtune/router.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

// (name, backend, folder, threads)
using EngineFolder = std::tuple<std::string, std::string, Path, int>;

RoutedGraph make_graph(const GraphSpec& spec, const PlanEntries& plan,
                       const std::vector<EngineFolder>& engines,
                       std::vector<std::int32_t> output_alias, const ArgumentChanges* changes) {
  RoutedGraph graph;
  graph.name = spec.name();
  graph.key = spec.input_spec().key();
  graph.input_tree = spec.input_spec().tree();
  graph.output_tree = spec.output_spec().tree();
  graph.output_alias = std::move(output_alias);
  graph.eager_reason = spec.eager_reason();
  if (graph.eager_reason.empty()) {
    if (changes != nullptr) {
      graph.changes = *changes;
    }
    graph.contract = spec.contract();
    graph.fixed_constants = spec.fixed_constants();
    graph.plan = make_plan(plan);
    for (const auto& [name, backend, folder, threads] : engines) {
      graph.engines.push_back(
          {name, load_engine(find_backend(backend), folder, EngineOptions{.threads = threads})});
    }
  }
  return graph;
}

nb::typed<nb::dict, nb::str, nb::any> stats_of(const Router& router) {
  const CallStats stats = router.stats();
  nb::dict result;
  result["calls"] = stats.calls;
  result["by_graph"] = stats.by_graph;
  result["misses"] = stats.misses;
  return result;
}

std::shared_ptr<TunedRouter> make_tuned_router(
    std::shared_ptr<Router> router, const CallSignature* signature, const AnySequence& templates,
    const TensorSequence& weights, const AnySequence& slots, const AnySequence& fixed_dicts,
    const nb::object& default_device) {
  std::vector<Object> forms;
  for (const nb::handle form : templates) {
    forms.push_back(Object::borrow(form.ptr()));
  }
  std::vector<PyObject*> watched;
  for (const nb::handle weight : weights) {
    if (!is_tensor(weight.ptr())) {
      throw TypeError("weights must be torch tensors");
    }
    watched.push_back(weight.ptr());
  }
  std::vector<WeightGuard::Slot> kept;
  for (const nb::handle slot : slots) {
    const auto [dict, key] = nb::cast<std::pair<nb::dict, nb::object>>(slot);
    // Null where there is no such entry: there must be none later either.
    kept.push_back({Object::borrow(dict.ptr()), Object::borrow(key.ptr()),
                    Object::borrow(PyDict_GetItem(dict.ptr(), key.ptr()))});
  }
  std::vector<PyObject*> fixed;
  for (const nb::handle dict : fixed_dicts) {
    if (!PyDict_Check(dict.ptr())) {
      throw TypeError("fixed_dicts must be dicts");
    }
    fixed.push_back(dict.ptr());
  }
  return std::make_shared<TunedRouter>(
      std::move(router), signature == nullptr ? CallSignature() : *signature, std::move(forms),
      std::make_unique<WeightGuard>(
          watched, std::move(kept), fixed,
          default_device.is_none() ? Object() : Object::borrow(default_device.ptr())));
}

}  // namespace

void bind_routing(nb::module_& module) {
  // What a call returns that is to be run eagerly, by plan or because it is being traced.
  const nb::object run_eagerly =
      nb::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  module.attr("RUN_EAGERLY") = run_eagerly;

  nb::class_<CallMiss>(module, "Miss", "A call that no engine served")
      .def_prop_ro("reason",
                   [](const CallMiss& miss) { return std::string(to_string(miss.reason)); })
      .def_ro("message", &CallMiss::message)
      .def_ro("first", &CallMiss::first, "The first of this reason for this graph")
      .def("__repr__", [](const CallMiss& miss) {
        return "Miss(" + std::string(to_string(miss.reason)) + ": " + miss.message + ")";
      });

  nb::class_<RoutedGraph>(module, "RoutedGraph", "A graph with its engines and plan")
      .def_ro("name", &RoutedGraph::name)
      .def_ro("eager_reason", &RoutedGraph::eager_reason);
  module.def("make_graph", &make_graph, "spec"_a, "plan"_a, "engines"_a, "output_alias"_a,
             "changes"_a.none() = nb::none(), nb::call_guard<nb::gil_scoped_release>(),
             "Loads engines (name, backend, folder, threads). Raises EngineError.");

  nb::class_<Router>(module, "Router", "Sends calls to the engines of their graphs")
      .def("stats", &stats_of);
  module.def(
      "make_router",
      [](std::vector<RoutedGraph> graphs, bool strict) {
        return std::make_shared<Router>(std::move(graphs), strict);
      },
      "graphs"_a, "strict"_a);

  nb::class_<TunedRouter>(module, "TunedRouter",
                          "A Router for Python calls. Immutable but for its counters.")
      .def(
          "call",
          [run_eagerly](const TunedRouter& router, const nb::tuple& args, const nb::dict& kwargs,
                        bool training, bool grad_enabled) -> nb::object {
            Outcome outcome = router.call(args.ptr(), kwargs.ptr(), training, grad_enabled);
            if (outcome.miss) {
              return nb::cast(std::move(*outcome.miss));
            }
            return outcome.result ? nb::steal(outcome.result.release()) : run_eagerly;
          },
          "args"_a, "kwargs"_a, "training"_a, "grad_enabled"_a,
          nb::sig("def call(self, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any], "
                  "training: bool, "
                  "grad_enabled: bool) -> object"),
          "The result, a Miss, or RUN_EAGERLY.")
      .def(
          "time_routing",
          [](const TunedRouter& router, const Args& args, const Kwargs& kwargs, int count) {
            return router.time_routing(args.ptr(), kwargs.ptr(), count);
          },
          "args"_a, "kwargs"_a, "count"_a,
          "Seconds to find the engine of a call of known form `count` times; none runs.")
      .def("stats", [](const TunedRouter& router) { return stats_of(router.router()); });
  module.def("make_tuned_router", &make_tuned_router, "router"_a, "signature"_a.none(),
             "templates"_a, "weights"_a, "slots"_a, "fixed_dicts"_a, "default_device"_a.none());
}

}  // namespace graphtune::python
