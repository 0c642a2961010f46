#include "bindings/object.h"

namespace graphtune::python {

std::string_view text_of(PyObject* string, Object& memory) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(string, &size);
  if (text == nullptr) {
    PyErr_Clear();
    memory = Object::steal(PyUnicode_AsEncodedString(string, "utf-8", "surrogatepass"));
    text = PyBytes_AS_STRING(memory.get());
    size = PyBytes_GET_SIZE(memory.get());
  }
  return {text, static_cast<std::size_t>(size)};
}

Object string_from(std::string_view text) {
  return Object::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogatepass"));
}

Object message_from(std::string_view text) {
  return Object::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

std::string type_name_of(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  const Object qualname = Object::steal(PyObject_GetAttrString(object, "__qualname__"));
  const Object module = Object::steal(PyObject_GetAttrString(object, "__module__"));
  Object memory;
  std::string name;
  if (PyUnicode_Check(module.get())) {
    name = std::string(text_of(module.get(), memory)) + ".";
  }
  Object qualname_memory;
  return name + std::string(text_of(qualname.get(), qualname_memory));
}

void add_note_to_error(const std::string& note) {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value != nullptr && PyObject_HasAttrString(value, "add_note") != 0) {
    PyObject* done = PyObject_CallMethod(value, "add_note", "s", note.c_str());
    Py_XDECREF(done);
    PyErr_Clear();  // an exception class may refuse notes
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace graphtune::python
