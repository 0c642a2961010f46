#include "bindings/call_signature.h"

#include <utility>

namespace graphtune::python {

CallSignature::CallSignature(std::vector<Parameter> parameters)
    : signature_(std::move(parameters)) {
  for (const Parameter& parameter : signature_.parameters()) {
    PyObject* text = string_from(parameter.name).release();
    PyUnicode_InternInPlace(&text);
    names_.push_back({Object::steal(text), signature_.default_of(parameter.name)});
  }
}

const Constant* CallSignature::default_of(PyObject* name) const {
  for (const Name& candidate : names_) {
    if (candidate.text.get() == name) {
      return candidate.default_value;
    }
  }
  if (PyUnicode_CHECK_INTERNED(name) != 0) {
    return nullptr;  // there is one interned string of a text
  }
  Object memory;
  return signature_.default_of(text_of(name, memory));
}

PyObject* CallSignature::keyword_of(std::size_t index, std::size_t count) const {
  const Signature::Slot slot = signature_.place_positional(index, count);
  // Positional parameters come first, so that an argument's index is its parameter's.
  return slot.place == Signature::Slot::Place::Keyword ? names_[index].text.get() : nullptr;
}

}  // namespace graphtune::python
