#include "bindings/errors.h"

#include <exception>

#include "bindings/object.h"
#include "bindings/tensor_access.h"
#include "graphtune/error.h"

namespace nb = nanobind;

namespace graphtune::python {
namespace {

struct Classes {
  PyObject* error = nullptr;
  PyObject* value_error = nullptr;
  PyObject* type_error = nullptr;
  PyObject* miss_error = nullptr;
  PyObject* bundle_error = nullptr;
  PyObject* engine_error = nullptr;
};
Classes classes;  // as long as the process: an error may be raised at any time

PyObject* add_class(nb::module_& module, const char* name, const char* doc, nb::tuple bases) {
  const std::string full_name = std::string("graphtune.") + name;
  nb::object made =
      nb::steal(PyErr_NewExceptionWithDoc(full_name.c_str(), doc, bases.ptr(), nullptr));
  if (!made.is_valid()) {
    nb::raise_python_error();
  }
  module.attr(name) = made;
  return made.release().ptr();
}

void set_error(PyObject* type, const char* text) {
  try {
    PyErr_SetObject(type, message_from(text).get());
  } catch (const PythonError&) {
    // No memory for the message: that is the error which is set.
  }
}

void translate(const std::exception_ptr& exception, void*) {
  if (translate_torch_exception(exception)) {
    return;
  }
  try {
    std::rethrow_exception(exception);
  } catch (const PythonError&) {
    // The error is set already.
  } catch (const ValueError& error) {
    set_error(classes.value_error, error.what());
  } catch (const TypeError& error) {
    set_error(classes.type_error, error.what());
  } catch (const MissError& error) {
    set_error(classes.miss_error, error.what());
  } catch (const BundleError& error) {
    set_error(classes.bundle_error, error.what());
  } catch (const EngineError& error) {
    set_error(classes.engine_error, error.what());
  } catch (const Error& error) {
    set_error(classes.error, error.what());
  }
}

}  // namespace

void set_python_error() noexcept {
  try {
    translate(std::current_exception(), nullptr);
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    set_error(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an exception of unknown type");
  }
}

void bind_errors(nb::module_& module) {
  const nb::handle value_error = PyExc_ValueError;
  const nb::handle type_error = PyExc_TypeError;
  classes.error = add_class(module, "Error", "Base of everything that graphtune raises.",
                            nb::make_tuple(nb::handle(PyExc_Exception)));
  const nb::handle error = classes.error;
  classes.value_error =
      add_class(module, "GraphtuneValueError", "An argument has a value that can't be used.",
                nb::make_tuple(error, value_error));
  classes.type_error =
      add_class(module, "GraphtuneTypeError", "An argument has a type that can't be used.",
                nb::make_tuple(error, type_error));
  classes.miss_error =
      add_class(module, "MissError", "A call that no tuned graph serves.", nb::make_tuple(error));
  classes.bundle_error =
      add_class(module, "BundleError",
                "A bundle or file that is damaged, foreign, or not allowed to be loaded.",
                nb::make_tuple(error));
  classes.engine_error =
      add_class(module, "EngineError",
                "An engine (or its library) could not be loaded, or failed while it ran.",
                nb::make_tuple(error));
  nb::register_exception_translator(translate);
}

}  // namespace graphtune::python
