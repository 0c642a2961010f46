#include "bindings/json.h"

#include <string>

#include <nlohmann/json.hpp>

#include "bindings/object.h"
#include "bindings/python_values.h"
#include "graphtune/graph_json.h"
#include "graphtune/metadata_json.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

nb::object to_plain(const Json& json) {
  return nb::module_::import_("json").attr("loads")(to_python(std::string_view(json.dump())));
}

Json from_plain(nb::handle data, const char* what) {
  const nb::object text = nb::module_::import_("json").attr("dumps")(data, "allow_nan"_a = false);
  Object memory;
  return parse_json(text_of(text.ptr(), memory), what);
}

template <typename T>
void bind(nb::module_& module, const char* name, T (*read)(const JsonView&),
          const char* read_signature) {
  const nb::object type = module.attr(name);
  nb::cpp_function_def([](const T& self) { return to_plain(to_json(self)); }, nb::scope(type),
                       nb::name("to_dict"), nb::is_method(),
                       nb::sig("def to_dict(self) -> dict[str, object]"),
                       "As plain data (dicts, lists, numbers, strings) that json can write.");
  nb::cpp_function_def(
      [name, read](nb::handle data) {
        const Json json = from_plain(data, name);
        return read(JsonView(json));
      },
      nb::scope(type), nb::name("from_dict"), "data"_a.none(), nb::sig(read_signature),
      "What to_dict gave. Raises GraphtuneValueError with the path of what is wrong.");
  nb::cpp_function_def(
      [](nb::handle self) {
        // Functions of an extension can't be pickled, but a call by name can.
        const nb::object restore = nb::module_::import_("operator").attr("methodcaller");
        return nb::make_tuple(restore("from_dict", self.attr("to_dict")()),
                              nb::make_tuple(self.type()));
      },
      nb::scope(type), nb::name("__reduce__"), nb::is_method(),
      nb::sig("def __reduce__(self) -> tuple[object, ...]"));
}

}  // namespace

void bind_json(nb::module_& module) {
  bind<TensorSpec>(module, "TensorSpec", &tensor_spec_from_json,
                   "def from_dict(data: object) -> TensorSpec");
  bind<SampleMetadata>(module, "SampleMetadata", &sample_metadata_from_json,
                       "def from_dict(data: object) -> SampleMetadata");
  bind<GraphSpec>(module, "GraphSpec", &graph_spec_from_json,
                  "def from_dict(data: object) -> GraphSpec");
}

}  // namespace graphtune::python
