#include "bindings/children.h"

#include <string>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune::python {
namespace {

[[noreturn]] void throw_bad_step(const TypeInfo& info) {
  throw TypeError(fmt::format(
      "flattening a {} gave a step that is no (\"index\" | \"key\" | \"attribute\", value)",
      *info.name));
}

}  // namespace

bool flatten_object(const TypeInfo& info, PyObject* object, Flattening& parts) {
  const Object result = Object::steal(PyObject_CallOneArg(info.flatten.get(), object));
  if (result.get() == Py_None) {
    return false;
  }
  PyObject* steps = nullptr;
  PyObject* children = nullptr;
  PyObject* context = nullptr;
  if (PyArg_ParseTuple(result.get(), "OOO", &steps, &children, &context) == 0) {
    throw PythonError();
  }
  parts.children =
      Object::steal(PySequence_Fast(children, "a flatten function must give a list of children"));
  if (context != Py_None) {
    parts.context = Object::borrow(context);
  }
  if (steps == Py_None) {
    return true;
  }
  parts.steps =
      Object::steal(PySequence_Fast(steps, "a flatten function must give a list of steps"));
  if (PySequence_Fast_GET_SIZE(parts.steps.get()) !=
      PySequence_Fast_GET_SIZE(parts.children.get())) {
    throw ValueError(fmt::format("flattening a {} gave {} steps for {} children", *info.name,
                                 PySequence_Fast_GET_SIZE(parts.steps.get()),
                                 PySequence_Fast_GET_SIZE(parts.children.get())));
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(parts.steps.get()); ++i) {
    PyObject* step = PySequence_Fast_GET_ITEM(parts.steps.get(), i);
    if (PyTuple_Check(step) == 0 || PyTuple_GET_SIZE(step) != 2 ||
        PyUnicode_Check(PyTuple_GET_ITEM(step, 0)) == 0) {
      throw_bad_step(info);
    }
    const bool by_index = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(step, 0), "index") == 0;
    if (by_index && PyLong_Check(PyTuple_GET_ITEM(step, 1)) == 0) {
      throw_bad_step(info);
    }
  }
  return true;
}

ChildStep step_of(const Flattening& parts, Py_ssize_t i) {
  if (!parts.steps) {
    return {.index = i};
  }
  PyObject* step = PySequence_Fast_GET_ITEM(parts.steps.get(), i);
  PyObject* kind = PyTuple_GET_ITEM(step, 0);
  PyObject* value = PyTuple_GET_ITEM(step, 1);
  if (PyUnicode_CompareWithASCIIString(kind, "index") == 0) {
    return {.index = PyLong_AsSsize_t(value)};
  }
  const bool by_key = PyUnicode_CompareWithASCIIString(kind, "key") == 0;
  return {.kind = by_key ? ChildStep::Kind::Key : ChildStep::Kind::Attribute, .key = value};
}

Object items_of(PyObject* mapping) {
  Object items = Object::steal(PyMapping_Items(mapping));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    if (PyTuple_Check(item) == 0 || PyTuple_GET_SIZE(item) != 2) {
      throw TypeError(
          fmt::format("items() of a {} gave something else than pairs", Py_TYPE(mapping)->tp_name));
    }
  }
  return items;
}

void throw_changed_size(PyObject* container) {
  throw ValueError(
      fmt::format("a {} changed its size while it was read", Py_TYPE(container)->tp_name));
}

}  // namespace graphtune::python
