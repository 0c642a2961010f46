#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bindings/object.h"
#include "bindings/type_registry.h"

namespace graphtune::python {

/// How a container reaches a child.
struct ChildStep {
  enum class Kind : std::uint8_t { Index, Key, Attribute };
  Kind kind = Kind::Index;
  Py_ssize_t index = 0;                    ///< Index
  PyObject* key = nullptr;                 ///< Key, Attribute without a name
  const std::string* attribute = nullptr;  ///< Attribute of a dataclass or named tuple: interned
};

/// What keeps children alive that a container made for us (items(), flatten functions, attributes
/// that are computed).
using KeepAlive = std::vector<Object>;

/// A Flattened object's parts: [first step or None, children, context or None].
struct Flattening {
  Object steps;
  Object children;  ///< a list or tuple
  Object context;   ///< text, null if there is none
};
/// False when the object can't be flattened: it is opaque. Throws PythonError.
[[nodiscard]] bool flatten_object(const TypeInfo& info, PyObject* object, Flattening& parts);
/// The step of child `i`, as the flatten function gave it.
[[nodiscard]] ChildStep step_of(const Flattening& parts, Py_ssize_t i);
/// A dict's items, as pairs, of a Mapping; all children of a Sequence.
[[nodiscard]] Object items_of(PyObject* mapping);
[[noreturn]] void throw_changed_size(PyObject* container);

/// Calls `visit(step, child)` for every child of an exact dict, in its order. `visit` may run
/// Python code.
template <typename Visit>
void for_each_item(PyObject* dict, Visit&& visit) {
  const Py_ssize_t size = PyDict_GET_SIZE(dict);
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value) != 0) {
    const Object held_key = Object::borrow(key);
    const Object held_value = Object::borrow(value);
    visit(ChildStep{.kind = ChildStep::Kind::Key, .key = key}, value);
    if (PyDict_GET_SIZE(dict) != size) {
      throw_changed_size(dict);
    }
  }
}

template <typename Visit>
void for_each_element(PyObject* list, Visit&& visit) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    const Object child = Object::borrow(PyList_GET_ITEM(list, i));
    visit(ChildStep{.index = i}, child.get());
  }
}

/// The same for containers of any other kind. Children that the container makes anew are kept by
/// `alive`.
template <typename Visit>
void for_each_child(const TypeInfo& info, PyObject* object, const Flattening& parts,
                    KeepAlive& alive, Visit&& visit) {
  switch (info.kind) {
    case TypeKind::Named:
      for (std::size_t i = 0;
           i < info.fields.size() && static_cast<Py_ssize_t>(i) < PyTuple_GET_SIZE(object); ++i) {
        visit(ChildStep{.kind = ChildStep::Kind::Attribute, .attribute = info.field_names[i]},
              PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
      }
      return;
    case TypeKind::Fields:
      for (std::size_t i = 0; i < info.fields.size(); ++i) {
        PyObject* child = PyObject_GetAttr(object, info.fields[i].get());
        if (child == nullptr) {
          if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) {
            throw PythonError();
          }
          PyErr_Clear();  // a field that was never set, or deleted
          continue;
        }
        alive.push_back(Object::steal(child));
        visit(ChildStep{.kind = ChildStep::Kind::Attribute, .attribute = info.field_names[i]},
              child);
      }
      return;
    case TypeKind::Namespace: {
      alive.push_back(Object::steal(PyObject_GenericGetDict(object, nullptr)));
      PyObject* attributes = alive.back().get();
      for_each_item(attributes, [&](ChildStep step, PyObject* child) {
        step.kind = ChildStep::Kind::Attribute;
        visit(step, child);
      });
      return;
    }
    case TypeKind::Mapping: {
      alive.push_back(items_of(object));
      PyObject* items = alive.back().get();
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items); ++i) {
        PyObject* item = PyList_GET_ITEM(items, i);
        visit(ChildStep{.kind = ChildStep::Kind::Key, .key = PyTuple_GET_ITEM(item, 0)},
              PyTuple_GET_ITEM(item, 1));
      }
      return;
    }
    case TypeKind::Sequence: {
      alive.push_back(Object::steal(PySequence_List(object)));
      PyObject* children = alive.back().get();
      for_each_element(children, visit);
      return;
    }
    case TypeKind::Flattened: {
      PyObject* children = parts.children.get();
      alive.push_back(parts.children);
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(children); ++i) {
        visit(step_of(parts, i), PySequence_Fast_GET_ITEM(children, i));
      }
      return;
    }
    default:
      return;
  }
}

}  // namespace graphtune::python
