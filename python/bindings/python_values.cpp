#include "bindings/python_values.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>

#include "bindings/object.h"
#include "graphtune/error.h"
#include "graphtune/sample_metadata.h"

namespace nb = nanobind;

namespace graphtune::python {
namespace {

PyObject* batch_size_variable = nullptr;  // a contextvars.ContextVar, as long as the process

std::int64_t integer_from(nb::handle given, const char* argument) {
  // bool is an int in Python, and numpy's integers are none.
  if (PyBool_Check(given.ptr()) || PyIndex_Check(given.ptr()) == 0) {
    throw TypeError(
        fmt::format("{} must be an int, not {}", argument, Py_TYPE(given.ptr())->tp_name));
  }
  const Object integer = Object::steal(PyNumber_Index(given.ptr()));
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(integer.get(), &overflow);
  if (overflow != 0 || value < 1) {
    const std::string shown =
        overflow != 0 ? "an integer of more than 64 bits" : std::to_string(value);
    throw ValueError(fmt::format("{} must be at least 1, not {}", argument, shown));
  }
  return value;
}

}  // namespace

nb::object to_python(const ShapeEntry& entry) {
  if (const auto* size = std::get_if<std::int64_t>(&entry)) {
    return nb::int_(*size);
  }
  return to_python(std::string_view(std::get<std::string>(entry)));
}

nb::list to_python(const std::vector<ShapeEntry>& shape) {
  nb::list entries;
  for (const ShapeEntry& entry : shape) {
    entries.append(to_python(entry));
  }
  return entries;
}

nb::list to_python(std::span<const std::int64_t> sizes) {
  nb::list entries;
  for (const std::int64_t size : sizes) {
    entries.append(size);
  }
  return entries;
}

nb::str to_python(std::string_view text) { return nb::steal<nb::str>(string_from(text).release()); }

nb::object to_python(const Constant& constant) {
  if (!constant.is_complete()) {
    return to_python(std::string_view(constant.display()));
  }
  switch (constant.kind()) {
    case Constant::Kind::None:
      return nb::none();
    case Constant::Kind::Bool:
      return nb::bool_(constant.as_bool());
    case Constant::Kind::Int:
      return nb::int_(constant.as_int());
    case Constant::Kind::BigInt:
      return nb::steal(
          Object::steal(PyLong_FromString(constant.text().c_str(), nullptr, 0)).release());
    case Constant::Kind::Float:
      return nb::float_(constant.as_double());
    case Constant::Kind::String:
      return to_python(std::string_view(constant.text()));
    case Constant::Kind::Bytes:
      return nb::bytes(constant.text().data(), constant.text().size());
    case Constant::Kind::Other:
      break;
  }
  return to_python(std::string_view(constant.display()));
}

nb::tuple to_python(const Step& step) {
  switch (step.kind) {
    case Step::Kind::Index:
      return nb::make_tuple("index", step.index);
    case Step::Kind::Attribute:
      return nb::make_tuple("attribute", to_python(step.key));
    case Step::Kind::Key:
      break;
  }
  return nb::make_tuple("key", to_python(step.key));
}

std::optional<std::int64_t> context_batch_size() {
  PyObject* value = nullptr;
  if (PyContextVar_Get(batch_size_variable, nullptr, &value) != 0) {
    throw PythonError();
  }
  if (value == nullptr) {
    return std::nullopt;
  }
  const Object held = Object::steal(value);
  return value == Py_None ? std::nullopt : std::optional<std::int64_t>(PyLong_AsLongLong(value));
}

std::optional<std::int64_t> batch_size_from(nb::handle given, const char* argument) {
  return given.is_none() ? context_batch_size() : std::optional(integer_from(given, argument));
}

std::int64_t required_batch_size(nb::handle given, const char* argument) {
  return integer_from(given, argument);
}

void bind_batch_size(nb::module_& module) {
  batch_size_variable = Object::steal(PyContextVar_New("graphtune.batch_size", nullptr)).release();
  module.attr("batch_size_variable") = nb::borrow(batch_size_variable);
  module.def(
      "check_batch_size",
      [](nb::object given, const char* argument) { return required_batch_size(given, argument); },
      nb::arg("given").none(), nb::arg("argument") = "batch_size",
      "The int; raises GraphtuneTypeError or GraphtuneValueError naming the argument.");
  module.def("current_batch_size", &context_batch_size,
             "The batch size of this context, if one is set.");
}

}  // namespace graphtune::python
