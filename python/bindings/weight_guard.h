#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/object.h"

namespace graphtune::python {

/// Sees when a module's weights are no longer those that its engines were built from: parameters
/// and buffers that were written in place (`load_state_dict`, an optimiser) or got other memory
/// (`to`, `.data = …`); and entries of the modules' own dicts that were replaced
/// (`torch.func.functional_call`, `model.layer = …`) or added to (hooks). And that torch's default
/// dtype or device is another one, of which a model may make tensors. Not seen:
/// `weight.data.zero_()`, which moves no version counter.
class WeightGuard {
 public:
  struct Slot {
    Object dict;
    Object key;
    Object value;
  };
  /// `tensors`: torch tensors; they are kept alive, as is all that the slots hold.
  /// `default_device`: a function that gives torch's, or null where the defaults don't matter.
  WeightGuard(const std::vector<PyObject*>& tensors, std::vector<Slot> slots,
              const std::vector<PyObject*>& fixed_dicts, Object default_device);
  ~WeightGuard();
  WeightGuard(const WeightGuard&) = delete;
  WeightGuard& operator=(const WeightGuard&) = delete;

  /// A few nanoseconds a tensor, some 15 a slot. Needs the GIL.
  /// Throws PythonError when the default device can't be had.
  [[nodiscard]] bool changed() const;

 private:
  struct Watched;
  class Defaults;
  std::unique_ptr<std::vector<Watched>> watched_;
  std::vector<Slot> slots_;
  std::vector<std::pair<Object, Py_ssize_t>> fixed_;  // dicts and their sizes
  std::unique_ptr<Defaults> defaults_;                // null: not watched
};

}  // namespace graphtune::python
