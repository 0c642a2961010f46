#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <Python.h>

namespace graphtune::python {

/// Thrown where a Python error is set: unwinds to the caller of the extension, which raises it.
struct PythonError {};

/// An owned reference, for code on the call path (nanobind's objects elsewhere).
class Object {
 public:
  Object() = default;
  ~Object() { Py_XDECREF(pointer_); }
  Object(const Object& other) noexcept : pointer_(Py_XNewRef(other.pointer_)) {}
  Object(Object&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Object& operator=(Object other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }

  /// Takes over a new reference; throws PythonError for null, which is how the C API reports an
  /// error.
  static Object steal(PyObject* pointer) {
    if (pointer == nullptr) {
      throw PythonError();
    }
    Object object;
    object.pointer_ = pointer;
    return object;
  }
  static Object borrow(PyObject* pointer) noexcept {
    Object object;
    object.pointer_ = Py_XNewRef(pointer);
    return object;
  }

  [[nodiscard]] PyObject* get() const noexcept { return pointer_; }
  [[nodiscard]] PyObject* release() noexcept { return std::exchange(pointer_, nullptr); }
  explicit operator bool() const noexcept { return pointer_ != nullptr; }

 private:
  PyObject* pointer_ = nullptr;
};

/// UTF-8 of a str. Lone surrogates, which UTF-8 can't hold, come as the three bytes that WTF-8
/// gives them, kept in `memory`.
[[nodiscard]] std::string_view text_of(PyObject* string, Object& memory);
/// A new str: the inverse of text_of.
[[nodiscard]] Object string_from(std::string_view text);
/// A new str of a message, which may quote texts of the user that are no valid UTF-8: what can't be
/// read is replaced.
[[nodiscard]] Object message_from(std::string_view text);
/// `module.qualname`; `qualname` alone when there is no module.
[[nodiscard]] std::string type_name_of(PyTypeObject* type);
/// Adds a line to the Python error that is set (PEP 678; nothing before Python 3.11).
void add_note_to_error(const std::string& note);

}  // namespace graphtune::python
