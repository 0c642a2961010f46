#include "bindings/size_condition.h"

#include <map>
#include <new>
#include <string>
#include <vector>

#include <nanobind/operators.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/plan_conversion.h"
#include "bindings/python_values.h"
#include "graphtune/error.h"
#include "graphtune/size_condition.h"
#include "graphtune/size_expr.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

bool holds(const SizeCondition& condition, const std::map<std::string, std::int64_t>& sizes) {
  if (condition.symbols().empty()) {
    return condition.holds({});
  }
  std::vector<std::int64_t> values(condition.symbols().back() + std::size_t{1});
  for (const std::uint32_t symbol : condition.symbols()) {
    const auto size = sizes.find(symbol_name(symbol));
    if (size == sizes.end()) {
      throw ValueError("no size is given for " + symbol_name(symbol) + " in " +
                       condition.to_string());
    }
    values[symbol] = size->second;
  }
  return condition.holds(values);
}

std::vector<std::string> symbol_names(const SizeCondition& condition) {
  std::vector<std::string> names;
  for (const std::uint32_t symbol : condition.symbols()) {
    names.push_back(symbol_name(symbol));
  }
  return names;
}

}  // namespace

void bind_size_condition(nb::module_& module) {
  nb::class_<SizeCondition>(module, "SizeCondition",
                            "A condition on sizes, such as b*s0 <= 20, as engines' calls are "
                            "checked for it.")
      .def(
          "__init__",
          [](SizeCondition* self, const std::string& text) {
            new (self) SizeCondition(SizeCondition::parse(text));
          },
          "text"_a, "Raises GraphtuneValueError for a text that is no such condition.")
      .def("holds", &holds, "sizes"_a,
           "Whether it holds for the symbols' sizes; not where it divides by zero or leaves 64 "
           "bits. Raises GraphtuneValueError for a symbol without a size.")
      .def_prop_ro("symbols", &symbol_names, "The symbols that occur.")
      .def("__str__",
           [](const SizeCondition& self) { return to_python(std::string_view(self.to_string())); })
      .def("__repr__",
           [](const SizeCondition& self) {
             return to_python(std::string_view("SizeCondition('" + self.to_string() + "')"));
           })
      // NOLINTNEXTLINE(misc-redundant-expression): nanobind's way of saying ==
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__hash__",
           [](const SizeCondition& self) { return nb::hash(nb::str(self.to_string().c_str())); });
}

}  // namespace graphtune::python
