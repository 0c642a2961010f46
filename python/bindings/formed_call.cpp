#include "bindings/formed_call.h"

#include "bindings/tensor_access.h"

namespace graphtune::python {

// The array of tensors is filled as far as its count says.
FormedCall::FormedCall(PyObject* args, PyObject* kwargs) {  // NOLINT(*-member-init)
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  form_.open(NodeKind::Tuple, static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count && form_.is_complete(); ++i) {
    add(PyTuple_GET_ITEM(args, i));
  }
  if (kwargs == nullptr) {
    form_.open(NodeKind::Dict, 0);
  } else {
    add_items(kwargs);
  }
}

FormedCall::~FormedCall() {
  for (std::size_t i = 0; i < tensor_count_; ++i) {
    Py_DECREF(tensors_[i]);
  }
}

// Ends where the form does, which has a largest size: also in a list that contains itself.
void FormedCall::add(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (is_tensor_type(type)) {
    add_tensor(object);
  } else if (object == Py_None) {
    form_.none();
  } else if (type == &PyBool_Type) {
    form_.boolean(object == Py_True);
  } else if (type == &PyUnicode_Type) {
    add_text(object, false);
  } else if (type == &PyLong_Type) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    overflow == 0 ? form_.integer(value) : form_.give_up();
  } else if (type == &PyFloat_Type) {
    form_.real(PyFloat_AS_DOUBLE(object));
  } else if (type == &PyTuple_Type) {
    const Py_ssize_t count = PyTuple_GET_SIZE(object);
    form_.open(NodeKind::Tuple, static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count && form_.is_complete(); ++i) {
      add(PyTuple_GET_ITEM(object, i));
    }
  } else if (type == &PyList_Type) {
    const Py_ssize_t count = PyList_GET_SIZE(object);
    form_.open(NodeKind::List, static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count && form_.is_complete(); ++i) {
      add(PyList_GET_ITEM(object, i));
    }
  } else if (type == &PyDict_Type) {
    add_items(object);
  } else {
    form_.give_up();
  }
}

void FormedCall::add_items(PyObject* dict) {
  form_.open(NodeKind::Dict, static_cast<std::size_t>(PyDict_GET_SIZE(dict)));
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  while (form_.is_complete() && PyDict_Next(dict, &position, &key, &value) != 0) {
    if (Py_TYPE(key) != &PyUnicode_Type) {
      form_.give_up();
      return;
    }
    add_text(key, true);
    add(value);
  }
}

void FormedCall::add_tensor(PyObject* tensor) {
  TensorView view;
  if (tensor_count_ == tensors_.size() || view_of(tensor, view) != TensorState::Plain) {
    form_.give_up();
    return;
  }
  form_.tensor(view);
  tensors_[tensor_count_++] = Py_NewRef(tensor);
}

void FormedCall::add_text(PyObject* text, bool is_key) {
  // Other letters would need a copy, or can't be written as UTF-8.
  if (!PyUnicode_IS_COMPACT_ASCII(text)) {
    form_.give_up();
    return;
  }
  const std::string_view letters(static_cast<const char*>(PyUnicode_DATA(text)),
                                 static_cast<std::size_t>(PyUnicode_GET_LENGTH(text)));
  is_key ? form_.key(letters) : form_.string(letters);
}

}  // namespace graphtune::python
