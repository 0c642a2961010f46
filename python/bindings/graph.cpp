#include "bindings/graph.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/python_values.h"
#include "graphtune/graph_spec.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

nb::dict symbols_of(const GraphSpec& spec) {
  const Contract contract = spec.contract();
  nb::dict symbols;
  for (const std::uint32_t symbol : contract.used_symbols()) {
    const SymbolRange& range = contract.symbols()[symbol];
    symbols[nb::str(symbol_name(symbol).c_str())] = nb::make_tuple(range.min, range.max);
  }
  return symbols;
}

std::vector<std::string> conditions_of(const GraphSpec& spec) {
  std::vector<std::string> texts;
  const Contract contract = spec.contract();
  for (const SizeCondition& condition : contract.conditions()) {
    texts.push_back(condition.to_string());
  }
  return texts;
}

std::vector<SampleMetadata::AxisReport> ambiguities_of(const GraphSpec& spec) {
  std::vector<SampleMetadata::AxisReport> reports = spec.input_spec().explain();
  std::erase_if(reports, [](const auto& report) { return !report.facts.ambiguous; });
  return reports;
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<GraphSpec>(
      module, "GraphSpec",
      "One execution graph: its inputs and outputs as learned over all its samples.")
      .def(nb::init<std::string, SampleMetadata, SampleMetadata>(), "name"_a, "input_spec"_a,
           "output_spec"_a)
      .def_prop_ro("name",
                   [](const GraphSpec& self) { return to_python(std::string_view(self.name())); })
      .def_prop_ro("input_spec", [](const GraphSpec& self) { return self.input_spec(); })
      .def_prop_ro("output_spec", [](const GraphSpec& self) { return self.output_spec(); })
      .def_prop_ro("sample_count", &GraphSpec::sample_count,
                   "Calls of this graph that were recorded.")
      .def_prop_ro("min_batch_size", &GraphSpec::min_batch_size)
      .def_prop_ro("max_batch_size", &GraphSpec::max_batch_size)
      .def_prop_ro(
          "eager_reason",
          [](const GraphSpec& self) { return to_python(std::string_view(self.eager_reason())); },
          "Why calls of this graph run eagerly; empty when it can be tuned.")
      .def_prop_ro("symbols", &symbols_of,
                   nb::sig("def symbols(self) -> dict[str, tuple[int, int]]"),
                   "What varies, with its range: 'b' (the batch size), 's0', 's1' …; of a tuned "
                   "graph, what was validated.")
      .def_prop_ro("conditions", &conditions_of,
                   "Of a tuned graph: what has to hold of several sizes together, such as "
                   "'b*s0 <= 20'.")
      .def_prop_ro("ambiguities", &ambiguities_of,
                   "The axes of the inputs whose samples also fit another reading.")
      .def("set_eager_reason", &GraphSpec::set_eager_reason, "reason"_a)
      .def("update", &GraphSpec::update, "input"_a, "output"_a,
           "Learns from another sample of this graph. Raises GraphtuneValueError naming the "
           "difference for one of another.")
      .def(
          "describe",
          [](const GraphSpec& self, InfoLevel level) {
            return to_python(std::string_view(self.describe(level)));
          },
          "level"_a = InfoLevel::Full)
      .def("__repr__",
           [](const GraphSpec& self) {
             return to_python(std::string_view(self.describe(InfoLevel::Full)));
           })
      .def("__copy__", [](const GraphSpec& self) { return self; })
      .def(
          "__deepcopy__", [](const GraphSpec& self, nb::handle) { return self; }, "memo"_a);
}

}  // namespace graphtune::python
