#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/object.h"

namespace graphtune::python {

/// Sees when a module's weights are no longer those that its engines were built from: parameters
/// and buffers that were written in place (`load_state_dict`, an optimiser) or got other memory
/// (`to`, `.data = …`).
///
/// A parameter object that was replaced by another one in its module isn't seen: that would need a
/// walk over the modules.
class WeightGuard {
 public:
  /// `tensors`: torch tensors; they are kept alive.
  explicit WeightGuard(const std::vector<PyObject*>& tensors);
  ~WeightGuard();
  WeightGuard(const WeightGuard&) = delete;
  WeightGuard& operator=(const WeightGuard&) = delete;

  /// A few nanoseconds a tensor.
  [[nodiscard]] bool changed() const noexcept;

 private:
  struct Watched;
  std::unique_ptr<std::vector<Watched>> watched_;
};

}  // namespace graphtune::python
