#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "bindings/object.h"
#include "graphtune/call_form.h"

namespace graphtune::python {

/// A Python call as a CallForm, with the tensors themselves, in the caller's order. Lists, tuples,
/// dicts with strings as keys, None, bool, int, float, str and tensors make a form, others don't.
/// No Python code runs and nothing is allocated. Holds the tensors: a list among the arguments may
/// be changed by another thread while an engine runs.
class FormedCall {
 public:
  /// `args` is a tuple, `kwargs` a dict or null.
  FormedCall(PyObject* args, PyObject* kwargs);
  ~FormedCall();
  FormedCall(const FormedCall&) = delete;
  FormedCall& operator=(const FormedCall&) = delete;

  [[nodiscard]] const CallForm& form() const noexcept { return form_; }
  [[nodiscard]] std::span<PyObject* const> tensors() const noexcept {
    return {tensors_.data(), tensor_count_};
  }

 private:
  void add(PyObject* object);
  void add_items(PyObject* dict);
  void add_tensor(PyObject* tensor);
  void add_text(PyObject* text, bool is_key);

  CallForm form_;
  std::size_t tensor_count_ = 0;
  std::array<PyObject*, CallForm::kMaxTensors> tensors_;
};

}  // namespace graphtune::python
