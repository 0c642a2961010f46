#include "bindings/routing.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings/plan_conversion.h"
#include "bindings/rebuild.h"
#include "bindings/stub_types.h"
#include "bindings/tensor_access.h"
#include "bindings/tuned_router.h"
#include "bindings/walk.h"
#include "bindings/walker_lease.h"
#include "graphtune/engines/registry.h"
#include "graphtune/error.h"
#include "graphtune/graph_spec.h"
#include "graphtune/router.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

using Signature = const CallSignature*;  // null: as given

template <typename Key>
using RangesBy = nb::typed<nb::dict, Key, nb::typed<nb::tuple, int, int>>;
using SizeLists = nb::typed<nb::list, nb::typed<nb::list, std::variant<int, std::string>>>;
using ContractParts =
    nb::typed<nb::tuple, SizeLists, RangesBy<nb::str>, RangesBy<int>, nb::typed<nb::list, nb::str>>;
using SymbolValues = nb::typed<nb::dict, nb::str, int>;

// --- tensors of a call in canonical order -------------------------------------------------------

TensorList in_canonical_order(const Walker& walker) {
  TensorList result;
  for (std::size_t canonical = 0; canonical < walker.tensors().size(); ++canonical) {
    const std::size_t index = walker.tree().tensor_at(canonical);
    result.append(nb::borrow(walker.tensors()[index].get()));
  }
  return result;
}

std::vector<Object> in_callers_order(const Walker& walker, const TensorSequence& canonical) {
  if (nb::len(canonical) != walker.tensors().size()) {
    throw ValueError("the call has " + std::to_string(walker.tensors().size()) + " tensors, " +
                     std::to_string(nb::len(canonical)) + " were given");
  }
  std::vector<Object> tensors(walker.tensors().size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const nb::object tensor = canonical[i];
    tensors[walker.tree().tensor_at(i)] = Object::borrow(tensor.ptr());
  }
  return tensors;
}

TensorList call_tensors(const Args& args, const Kwargs& kwargs, Signature signature) {
  const WalkerLease walker;
  walker->walk_inputs(args.ptr(), kwargs.ptr(), signature);
  return in_canonical_order(*walker);
}

nb::typed<nb::tuple, Args, Kwargs> call_with_tensors(const Args& args, const Kwargs& kwargs,
                                                     const TensorSequence& tensors,
                                                     Signature signature) {
  const WalkerLease walker;
  walker->walk_inputs(args.ptr(), kwargs.ptr(), signature);
  const std::vector<Object> ordered = in_callers_order(*walker, tensors);
  Rebuilder rebuilder(ordered, true);
  const nb::object new_args = nb::steal(rebuilder.rebuild(args.ptr()).release());
  const nb::object new_kwargs = nb::steal(rebuilder.rebuild(kwargs.ptr()).release());
  rebuilder.finish();
  return nb::make_tuple(new_args, new_kwargs);
}

TensorList result_tensors(const nb::handle result) {
  const WalkerLease walker;
  walker->walk_result(result.ptr());
  return in_canonical_order(*walker);
}

nb::object result_with_tensors(const nb::handle result, const TensorSequence& tensors) {
  const WalkerLease walker;
  walker->walk_result(result.ptr());
  const std::vector<Object> ordered = in_callers_order(*walker, tensors);
  Rebuilder rebuilder(ordered, true);
  nb::object rebuilt = nb::steal(rebuilder.rebuild(result.ptr()).release());
  rebuilder.finish();
  return rebuilt;
}

// --- routing
// --------------------------------------------------------------------------------------

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

Contract make_contract(
    const std::vector<std::vector<std::variant<std::int64_t, std::string>>>& sizes,
    const Limits& symbols, const Limits& indices, const std::vector<std::string>& conditions) {
  std::vector<std::vector<SizeExpr>> expressions;
  std::uint32_t symbol_count = 1;
  for (const auto& [name, range] : symbols) {
    symbol_count = std::max(symbol_count, symbol_of(name) + 1);
  }
  for (const auto& tensor : sizes) {
    std::vector<SizeExpr>& row = expressions.emplace_back();
    for (const auto& size : tensor) {
      row.push_back(std::holds_alternative<std::int64_t>(size)
                        ? SizeExpr::constant(std::get<std::int64_t>(size))
                        : SizeExpr::parse(std::get<std::string>(size)));
    }
  }
  std::vector<SymbolRange> ranges(symbol_count);
  for (const auto& [name, range] : symbols) {
    ranges[symbol_of(name)] = {range.first, range.second};
  }
  std::vector<IndexRange> index_ranges;
  for (const auto& [tensor, range] : indices) {
    index_ranges.push_back(
        {static_cast<std::uint32_t>(std::stoul(tensor)), range.first, range.second});
  }
  std::vector<SizeCondition> parsed;
  parsed.reserve(conditions.size());
  for (const std::string& condition : conditions) {
    parsed.push_back(SizeCondition::parse(condition));
  }
  return {std::move(expressions), std::move(ranges), std::move(index_ranges), std::move(parsed)};
}

nb::object size_to_python(const SizeExpr& size) {
  return size.is_constant() ? nb::object(nb::int_(size.offset))
                            : nb::object(nb::str(size.to_string().c_str()));
}

// (sizes per tensor in canonical order, symbol -> range, canonical index -> allowed values,
// conditions)
ContractParts contract_parts(const GraphSpec& spec) {
  const Contract contract = spec.contract();
  nb::list sizes;
  for (const std::vector<SizeExpr>& tensor : contract.sizes()) {
    nb::list row;
    for (const SizeExpr& size : tensor) {
      row.append(size_to_python(size));
    }
    sizes.append(row);
  }
  nb::dict symbols;
  for (const std::uint32_t symbol : contract.used_symbols()) {
    const SymbolRange& range = contract.symbols()[symbol];
    symbols[symbol_name(symbol).c_str()] = nb::make_tuple(range.min, range.max);
  }
  nb::dict indices;
  for (const IndexRange& range : contract.index_ranges()) {
    indices[nb::int_(range.tensor)] = nb::make_tuple(range.low, range.high);
  }
  nb::list conditions;
  for (const SizeCondition& condition : contract.conditions()) {
    conditions.append(nb::str(condition.to_string().c_str()));
  }
  return nb::make_tuple(sizes, symbols, indices, conditions);
}

std::optional<SymbolValues> symbols_of_call(const GraphSpec& spec, const Args& args,
                                            const Kwargs& kwargs, Signature signature) {
  const Contract contract = spec.contract();
  const WalkerLease walker;
  walker->walk_inputs(args.ptr(), kwargs.ptr(), signature);
  if (!(CallKey(walker->tree(), spec.input_spec().strict()) == spec.input_spec().key())) {
    throw ValueError("the call is of another graph than " + spec.name());
  }
  std::vector<std::int64_t> values(contract.symbols().size());
  if (contract.check_sizes(walker->tree(), values)) {
    return std::nullopt;
  }
  SymbolValues result;
  for (const std::uint32_t symbol : contract.used_symbols()) {
    result[symbol_name(symbol).c_str()] = values[symbol];
  }
  return result;
}

std::vector<std::string> names_in_canonical_order(const CallTree& tree) {
  std::vector<std::string> names = tree.leaf_names().tensors;
  if (tree.is_canonical()) {
    return names;
  }
  std::vector<std::string> ordered;
  for (const std::uint32_t index : tree.tensor_order()) {
    ordered.push_back(names[index]);
  }
  return ordered;
}

/// Places among the constants, in canonical order.
using Places = std::vector<std::uint32_t>;

GraphSpec with_fixed_constants(GraphSpec spec, const Args& args, const Kwargs& kwargs,
                               Signature signature, const Places& unused) {
  const WalkerLease walker;
  walker->walk_inputs(args.ptr(), kwargs.ptr(), signature);
  spec.set_fixed_constants(FixedConstants(walker->tree(), unused));
  return spec;
}

/// Bytes that are equal for equal constants only.
std::vector<nb::bytes> call_constants(const Args& args, const Kwargs& kwargs, Signature signature) {
  const WalkerLease walker;
  walker->walk_inputs(args.ptr(), kwargs.ptr(), signature);
  std::vector<nb::bytes> constants;
  for (const Constant& constant : canonical_constants(walker->tree())) {
    std::string bytes;
    constant.encode(bytes);
    constants.emplace_back(bytes.data(), bytes.size());
  }
  return constants;
}

GraphSpec with_contract(GraphSpec spec, Contract contract) {
  spec.set_contract(std::move(contract));
  return spec;
}

nb::typed<nb::dict, nb::str, nb::any> stats_of(const Router& router) {
  const CallStats stats = router.stats();
  nb::dict result;
  result["calls"] = stats.calls;
  result["by_graph"] = stats.by_graph;
  result["misses"] = stats.misses;
  return result;
}

std::shared_ptr<TunedRouter> make_tuned_router(std::shared_ptr<Router> router, Signature signature,
                                               const AnySequence& templates,
                                               const TensorSequence& weights,
                                               const AnySequence& slots,
                                               const AnySequence& fixed_dicts,
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
  module.def("call_tensors", &call_tensors, "args"_a, "kwargs"_a, "signature"_a = nb::none(),
             "The tensors of a call in canonical order: what an engine takes.");
  module.def("call_with_tensors", &call_with_tensors, "args"_a, "kwargs"_a, "tensors"_a,
             "signature"_a = nb::none(),
             "The call with other tensors, given in canonical order; containers keep their types.");
  module.def("result_tensors", &result_tensors, "result"_a,
             "The tensors of a result in canonical order.");
  module.def("result_with_tensors", &result_with_tensors, "result"_a, "tensors"_a,
             "The result with other tensors, given in canonical order.");
  nb::class_<Contract>(module, "Contract",
                       "Sizes, ranges and index values that a graph's engines were validated for");
  module.def(
      "contract_parts", &contract_parts, "spec"_a,
      "Sizes per tensor in canonical order, ranges by symbol, allowed values by canonical index, "
      "conditions.");
  module.def(
      "symbols_of_call", &symbols_of_call, "spec"_a, "args"_a, "kwargs"_a,
      "signature"_a = nb::none(),
      "The symbols' values in a call of this graph; None when it is outside of the contract.");
  module.def(
      "input_names",
      [](const GraphSpec& spec) { return names_in_canonical_order(spec.input_spec().tree()); },
      "spec"_a, "Names of a graph's input tensors in canonical order.");
  module.def(
      "output_names",
      [](const GraphSpec& spec) { return names_in_canonical_order(spec.output_spec().tree()); },
      "spec"_a, "Names of a graph's result tensors in canonical order.");
  module.def("with_contract", &with_contract, "spec"_a, "contract"_a,
             "A copy with another contract.");
  module.def("with_fixed_constants", &with_fixed_constants, "spec"_a, "args"_a, "kwargs"_a,
             "signature"_a, "unused"_a,
             "A copy whose engines have the constants of this call built in; those at the places "
             "`unused`, in canonical order, may have any value.");
  module.def("call_constants", &call_constants, "args"_a, "kwargs"_a, "signature"_a = nb::none(),
             "For each constant of a call, in canonical order, bytes that identify its value.");
  module.def("make_contract", &make_contract, "sizes"_a, "symbols"_a, "index_ranges"_a,
             "conditions"_a = std::vector<std::string>(),
             "A Contract from sizes (numbers or expressions) per tensor in canonical order, the "
             "symbols' ranges, and "
             "allowed values of index tensors by canonical index (as text), and "
             "conditions such as 'b*s0 <= 20'.");

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
