#include "bindings/metadata.h"

#include <fmt/format.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/python_values.h"
#include "bindings/tensor_access.h"
#include "bindings/walker_lease.h"
#include "graphtune/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

// Typed as such in the stub, made by hand in the code.
using TensorData = nb::typed<nb::list, nb::typed<nb::tuple, Locator, TensorSpec>>;
using OtherData = nb::typed<nb::list, nb::typed<nb::tuple, Locator, nb::object>>;
using Shape = nb::typed<nb::list, nb::object>;
using Sizes = nb::typed<nb::list, int>;

const char* to_string(Root root) {
  switch (root) {
    case Root::Args:
      return "args";
    case Root::Kwargs:
      return "kwargs";
    case Root::Outputs:
      break;
  }
  return "outputs";
}

const char* to_string(AxisClass axis_class) {
  switch (axis_class) {
    case AxisClass::Static:
      return "static";
    case AxisClass::Batch:
      return "batch";
    case AxisClass::Dynamic:
      break;
  }
  return "dynamic";
}

template <typename Item>
nb::list pairs(const std::vector<std::pair<Locator, Item>>& items) {
  nb::list result;
  for (const auto& [locator, item] : items) {
    if constexpr (std::is_same_v<Item, Constant>) {
      result.append(nb::make_tuple(locator, to_python(item)));
    } else {
      result.append(nb::make_tuple(locator, item));
    }
  }
  return result;
}

SampleMetadata from_inputs(nb::handle args, nb::handle kwargs, bool strict, nb::handle batch_size) {
  const Object named = check_arguments(args.ptr(), kwargs.ptr());
  const std::optional<std::int64_t> size = batch_size_from(batch_size);
  const WalkerLease walker;
  walker->walk_inputs(args.ptr(), named.get());
  return {walker->tree(), strict, size};
}

SampleMetadata from_outputs(nb::handle outputs, bool strict, nb::handle batch_size) {
  const std::optional<std::int64_t> size = batch_size_from(batch_size);
  const WalkerLease walker;
  walker->walk_result(outputs.ptr());
  return {walker->tree(), strict, size};
}

TensorSpec make_spec(std::string name, std::vector<std::int64_t> shape, nb::handle dtype,
                     nb::handle batch_size, const std::string& device, const std::string& layout) {
  return {std::move(name),
          std::move(shape),
          dtype_from_python(dtype.ptr()),
          batch_size_from(batch_size),
          device_type_from_string(device),
          layout_from_string(layout)};
}

void bind_locator(nb::module_& module) {
  nb::class_<Locator>(module, "Locator",
                      "The path from the root of a call, or of a result, to a leaf.")
      .def_prop_ro(
          "root", [](const Locator& self) { return to_string(self.root()); },
          "'args', 'kwargs' or 'outputs'")
      .def_prop_ro(
          "steps",
          [](const Locator& self) {
            nb::list steps;
            for (const Step& step : self.steps()) {
              steps.append(to_python(step));
            }
            return nb::typed<nb::list, nb::typed<nb::tuple, nb::str, nb::object>>(steps);
          },
          "('index' | 'key' | 'attribute', value) for each step")
      .def_prop_ro(
          "name", [](const Locator& self) { return to_python(std::string_view(self.name())); },
          "Such as `args_2_0`; not yet unique among all leaves of a call.")
      .def("__str__",
           [](const Locator& self) { return to_python(std::string_view(self.to_string())); })
      .def("__repr__",
           [](const Locator& self) {
             return to_python(std::string_view(
                 fmt::format("<Locator {} {}>", to_string(self.root()), self.to_string())));
           })
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__hash__", [](const Locator& self) {
        return std::hash<std::string>()(self.to_string()) ^ static_cast<std::size_t>(self.root());
      });
}

void bind_tensor_spec(nb::module_& module) {
  nb::class_<TensorSpec>(
      module, "TensorSpec",
      "One tensor over all samples: its type, and what its axes turned out to be.")
      .def(nb::new_(&make_spec), "name"_a, "shape"_a, "dtype"_a, "batch_size"_a.none() = nb::none(),
           "device"_a = "cpu", "layout"_a = "strided")
      .def_prop_ro("name",
                   [](const TensorSpec& self) { return to_python(std::string_view(self.name())); })
      .def_prop_ro(
          "shape",
          [](const TensorSpec& self) {
            return nb::typed<nb::list, nb::object>(to_python(self.shape()));
          },
          "Sizes; 'batchN' and 'dimN' for axes that varied (N: the axis).",
          nb::sig("def shape(self) -> list[int | str]"))
      .def_prop_ro("min_shape",
                   [](const TensorSpec& self) { return Sizes(to_python(self.min_shape())); })
      .def_prop_ro("max_shape",
                   [](const TensorSpec& self) { return Sizes(to_python(self.max_shape())); })
      .def_prop_ro(
          "dtype", [](const TensorSpec& self) { return nb::steal(dtype_to_python(self.dtype())); },
          nb::sig("def dtype(self) -> torch.dtype"))
      .def_prop_ro(
          "device",
          [](const TensorSpec& self) { return to_python(graphtune::to_string(self.device())); })
      .def_prop_ro(
          "layout",
          [](const TensorSpec& self) { return to_python(graphtune::to_string(self.layout())); })
      .def("has_batch_axis", &TensorSpec::has_batch_axis)
      .def("has_dynamic_axis", &TensorSpec::has_dynamic_axis)
      .def(
          "get_batch_axis_multipliers",
          [](const TensorSpec& self) {
            nb::typed<nb::dict, int, int> multipliers;
            for (const auto& [axis, multiplier] : self.get_batch_axis_multipliers()) {
              multipliers[nb::int_(axis)] = multiplier;
            }
            return multipliers;
          },
          "Batch axis -> rows per unit of batch size.")
      .def("matches", &TensorSpec::matches, "other"_a,
           "Same rank, dtype, device type and layout: the two can be one tensor of one graph.")
      .def("update_shapes_seen", &TensorSpec::update_shapes_seen, "other"_a,
           "Learns from another sample of the same tensor; GraphtuneValueError unless "
           "matches(other).")
      .def("describe",
           [](const TensorSpec& self) { return to_python(std::string_view(self.describe())); })
      .def("__repr__",
           [](const TensorSpec& self) {
             return to_python(std::string_view(fmt::format("<TensorSpec {}>", self.describe())));
           })
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"));
}

void bind_axis_report(nb::module_& module) {
  using Report = SampleMetadata::AxisReport;
  nb::class_<Report>(module, "AxisReport", "What was learned of one axis, and why.")
      .def_ro("locator", &Report::locator)
      .def_prop_ro("name",
                   [](const Report& self) { return to_python(std::string_view(self.name)); })
      .def_ro("axis", &Report::axis)
      .def_prop_ro(
          "kind", [](const Report& self) { return to_string(self.facts.axis_class); },
          "'static', 'batch' or 'dynamic'")
      .def_prop_ro("min", [](const Report& self) { return self.facts.min; })
      .def_prop_ro("max", [](const Report& self) { return self.facts.max; })
      .def_prop_ro(
          "multiplier", [](const Report& self) { return self.facts.multiplier; },
          "Batch axes: rows per unit of batch size; else 0.")
      .def_prop_ro(
          "ambiguous", [](const Report& self) { return self.facts.ambiguous; },
          "The samples also fit another reading; `settle` says which sample would decide.")
      .def_prop_ro(
          "size", [](const Report& self) { return self.facts.size.to_string(); },
          "In symbols: '8', 'b', '2*b', 's0', 's0+s1'.")
      .def_prop_ro(
          "reason",
          [](const Report& self) { return to_python(std::string_view(self.explanation.reason)); })
      .def_prop_ro(
          "decided_by",
          [](const Report& self) {
            nb::list samples;
            for (const Observation& observation : self.explanation.decided_by) {
              samples.append(nb::make_tuple(
                  observation.batch_size == 0 ? nb::none()
                                              : nb::object(nb::int_(observation.batch_size)),
                  observation.sizes.empty() ? nb::none()
                                            : nb::object(nb::int_(observation.sizes[0]))));
            }
            return nb::typed<nb::list, nb::typed<nb::tuple, std::optional<int>, int>>(samples);
          },
          "(batch size or None, size) of the samples that decided.")
      .def_prop_ro(
          "settle",
          [](const Report& self) { return to_python(std::string_view(self.explanation.settle)); },
          "The sample that would settle an ambiguity; empty when there is none.")
      .def("__repr__", [](const Report& self) {
        return to_python(std::string_view(fmt::format("<AxisReport {} axis {}: {} {}{}>", self.name,
                                                      self.axis, to_string(self.facts.axis_class),
                                                      self.facts.size.to_string(),
                                                      self.facts.ambiguous ? ", ambiguous" : "")));
      });
}

void bind_sample_metadata(nb::module_& module) {
  nb::class_<SampleMetadata>(
      module, "SampleMetadata",
      "The tensors and constants of one call or result, and what several samples of the same "
      "graph taught about their shapes. Equal when they are of the same execution graph.")
      .def_static(
          "from_inputs", &from_inputs, "args"_a, "kwargs"_a.none() = nb::none(), "strict"_a = false,
          "batch_size"_a.none() = nb::none(),
          nb::sig("def from_inputs(args: tuple[typing.Any, ...] | list[typing.Any], kwargs: "
                  "dict[str, typing.Any] | None = None, "
                  "strict: bool = False, batch_size: int | None = None) -> SampleMetadata"),
          "Metadata of a call's arguments. strict: constants are part of the graph. batch_size: by "
          "default that of "
          "the context (graphtune.batch_size).")
      .def_static("from_outputs", &from_outputs, "outputs"_a.none(), "strict"_a = false,
                  "batch_size"_a.none() = nb::none(),
                  nb::sig("def from_outputs(outputs: object, strict: bool = False, batch_size: int "
                          "| None = None) -> "
                          "SampleMetadata"),
                  "Metadata of a call's result.")
      .def_prop_ro("strict", &SampleMetadata::strict)
      .def_prop_ro(
          "tensor_data",
          [](const SampleMetadata& self) { return TensorData(pairs(self.tensor_data())); },
          "(Locator, TensorSpec) for each tensor, in the order of the call.")
      .def_prop_ro(
          "tensor_specs",
          [](const SampleMetadata& self) {
            nb::typed<nb::list, TensorSpec> specs;
            for (TensorSpec& spec : self.tensor_specs()) {
              specs.append(std::move(spec));
            }
            return specs;
          },
          "The tensors' specs, in the order of the call.")
      .def_prop_ro(
          "other_data",
          [](const SampleMetadata& self) { return OtherData(pairs(self.other_data())); },
          "strict: (Locator, value) for each constant, by name. The value itself for None, numbers "
          "and strings, "
          "else the text that tables show.")
      .def_prop_ro(
          "opaque_data",
          [](const SampleMetadata& self) {
            nb::typed<nb::list, Locator> locators;
            for (const Locator& locator : self.opaque_data()) {
              locators.append(locator);
            }
            return locators;
          },
          "Locators of objects that graphtune can't look into: such a graph is not tuned.")
      .def_prop_ro("min_batch_size",
                   [](const SampleMetadata& self) {
                     const auto range = self.learner().batch_range();
                     return range ? std::optional(range->first) : std::nullopt;
                   })
      .def_prop_ro("max_batch_size",
                   [](const SampleMetadata& self) {
                     const auto range = self.learner().batch_range();
                     return range ? std::optional(range->second) : std::nullopt;
                   })
      .def_prop_ro(
          "symbols",
          [](const SampleMetadata& self) {
            nb::typed<nb::dict, nb::str, nb::typed<nb::tuple, int, int>> ranges;
            const std::vector<SymbolRange>& symbols = self.learner().symbols();
            for (std::uint32_t symbol = 0; symbol < symbols.size(); ++symbol) {
              if (symbol != 0 || symbols[0].max != 0) {
                ranges[nb::str(symbol_name(symbol).c_str())] =
                    nb::make_tuple(symbols[symbol].min, symbols[symbol].max);
              }
            }
            return ranges;
          },
          "Range of each symbol: 'b' is the batch size, 's0' … axes that vary otherwise.")
      .def("update_shapes_seen", &SampleMetadata::update_shapes_seen, "other"_a,
           "Learns from another sample. Raises GraphtuneValueError naming the first difference "
           "when it is of another graph.")
      .def(
          "describe",
          [](const SampleMetadata& self, InfoLevel level) {
            return to_python(std::string_view(self.describe(level)));
          },
          "level"_a = InfoLevel::Full)
      .def("explain", &SampleMetadata::explain, "One AxisReport an axis, in the order of the call.")
      .def("__repr__",
           [](const SampleMetadata& self) {
             return to_python(std::string_view(self.describe(InfoLevel::Full)));
           })
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__hash__", [](const SampleMetadata& self) { return self.key().hash(); })
      .def("__copy__", [](const SampleMetadata& self) { return self; })
      .def(
          "__deepcopy__", [](const SampleMetadata& self, nb::handle) { return self; }, "memo"_a);
}

}  // namespace

void bind_metadata(nb::module_& module) {
  nb::enum_<InfoLevel>(module, "InfoLevel", "How much `describe` tells.")
      .value("SHORT", InfoLevel::Short, "Tensor names.")
      .value("MEDIUM", InfoLevel::Medium, "Locators and shapes.")
      .value("FULL", InfoLevel::Full, "Also ranges and dtypes, in a grid.");
  bind_locator(module);
  bind_tensor_spec(module);
  bind_axis_report(module);
  bind_sample_metadata(module);
}

}  // namespace graphtune::python
