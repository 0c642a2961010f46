#include "bindings/rebuild.h"

#include <memory>

#include "bindings/argument_change.h"
#include "bindings/tensor_access.h"
#include "graphtune/error.h"

namespace graphtune::python {
namespace {

[[noreturn]] void throw_changed() {
  throw ValueError(
      "the objects hold other tensors than when they were read: they were changed meanwhile, or a "
      "flatten "
      "function gives other children each time");
}

bool holds_only_comparable_keys(PyObject* dict) {
  bool comparable = true;
  Constant key;
  for_each_item(dict, [&](const ChildStep& step, PyObject*) {
    comparable = comparable && (PyUnicode_CheckExact(step.key) || key_constant_of(step.key, key));
  });
  return comparable;
}

}  // namespace

Object Rebuilder::rebuild(PyObject* object) {
  switch (builtin_kind(Py_TYPE(object))) {
    case TypeKind::List:
      return rebuild_list(object);
    case TypeKind::Tuple:
      return rebuild_tuple(object);
    case TypeKind::Dict:
      return rebuild_dict(object);
    case TypeKind::Opaque:
      return is_tensor(object) ? next_tensor(object) : rebuild_typed(object);
    default:
      return Object::borrow(object);
  }
}

Object Rebuilder::next_tensor(PyObject* tensor) {
  TensorView view;
  if (view_of(tensor, view) == TensorState::Foreign) {
    return Object::borrow(tensor);
  }
  if (next_ == tensors_.size()) {
    throw_changed();
  }
  return tensors_[next_++];
}

void Rebuilder::finish() const {
  if (next_ != tensors_.size()) {
    throw_changed();
  }
}

Object Rebuilder::rebuild_list(PyObject* list) {
  Object copy;
  if (copy_containers_) {
    copy = Object::steal(PyList_GetSlice(list, 0, PyList_GET_SIZE(list)));
  }
  for_each_element(list, [&](const ChildStep& step, PyObject* child) {
    Object changed = rebuild(child);
    if (changed.get() == child) {
      return;
    }
    if (!copy) {
      copy = Object::steal(PyList_GetSlice(list, 0, PyList_GET_SIZE(list)));
    }
    if (PyList_SetItem(copy.get(), step.index, changed.release()) != 0) {
      throw PythonError();
    }
  });
  return copy ? copy : Object::borrow(list);
}

Object Rebuilder::rebuild_tuple(PyObject* tuple) {
  const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  std::vector<Object> children;
  children.reserve(static_cast<std::size_t>(size));
  bool changed = false;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* child = PyTuple_GET_ITEM(tuple, i);
    children.push_back(rebuild(child));
    changed = changed || children.back().get() != child;
  }
  if (!changed) {
    return Object::borrow(tuple);
  }
  Object copy = Object::steal(PyTuple_New(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyTuple_SET_ITEM(copy.get(), i, children[static_cast<std::size_t>(i)].release());
  }
  return copy;
}

Object Rebuilder::rebuild_dict(PyObject* dict) {
  if (!holds_only_comparable_keys(dict)) {
    return Object::borrow(dict);
  }
  Object copy;
  if (copy_containers_) {
    copy = Object::steal(PyDict_Copy(dict));
  }
  for_each_item(dict, [&](const ChildStep& step, PyObject* child) {
    const Object changed = rebuild(child);
    if (changed.get() == child) {
      return;
    }
    if (!copy) {
      copy = Object::steal(PyDict_Copy(dict));
    }
    if (PyDict_SetItem(copy.get(), step.key, changed.get()) != 0) {
      throw PythonError();
    }
  });
  return copy ? copy : Object::borrow(dict);
}

Object Rebuilder::rebuild_typed(PyObject* object) {
  if (call_ != nullptr && is_argument(object)) {
    return Object::borrow(call_->container_at(node_of_argument(object)));
  }
  const std::shared_ptr<const TypeInfo> info = find_type(Py_TYPE(object));
  Flattening parts;
  switch (info->kind) {
    case TypeKind::Flattened:
      if (!flatten_object(*info, object, parts)) {
        return Object::borrow(object);
      }
      break;
    case TypeKind::Named:
    case TypeKind::Fields:
    case TypeKind::Namespace:
    case TypeKind::Mapping:
    case TypeKind::Sequence:
      break;
    default:
      return Object::borrow(object);
  }
  KeepAlive alive;
  const Object children = Object::steal(PyList_New(0));
  bool changed = copy_containers_;
  for_each_child(*info, object, parts, alive, [&](const ChildStep&, PyObject* child) {
    const Object rebuilt = rebuild(child);
    changed = changed || rebuilt.get() != child;
    if (PyList_Append(children.get(), rebuilt.get()) != 0) {
      throw PythonError();
    }
  });
  if (!changed) {
    return Object::borrow(object);
  }
  PyObject* const arguments[] = {object, children.get()};
  return Object::steal(PyObject_Vectorcall(info->rebuild.get(), arguments, 2, nullptr));
}

}  // namespace graphtune::python
