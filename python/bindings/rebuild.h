#pragma once

#include <span>

#include "bindings/children.h"
#include "bindings/object.h"
#include "bindings/walk.h"

namespace graphtune::python {

/// Builds arguments or results anew with other tensors, each container keeping its very type
/// (graphtune.types says how).
///
/// What holds no changed tensor comes back as the object that it was; with `copy_containers`, every
/// container that can change is copied as well. Opaque objects and constants are shared.
class Rebuilder {
 public:
  /// `tensors` stand in the caller's order, as Walker::tensors() of a walk of the same objects.
  /// With `call`, a graphtune.argument_changes.Argument is replaced by the call's container.
  explicit Rebuilder(std::span<const Object> tensors, bool copy_containers = false,
                     const Walker* call = nullptr)
      : tensors_(tensors), copy_containers_(copy_containers), call_(call) {}

  /// The next object: first all positional arguments, then the keyword arguments; or the result.
  [[nodiscard]] Object rebuild(PyObject* object);
  /// Throws ValueError when the objects held more or fewer tensors than given (they changed since
  /// they were walked).
  void finish() const;

 private:
  [[nodiscard]] Object next_tensor(PyObject* tensor);
  [[nodiscard]] Object rebuild_list(PyObject* list);
  [[nodiscard]] Object rebuild_tuple(PyObject* tuple);
  [[nodiscard]] Object rebuild_dict(PyObject* dict);
  [[nodiscard]] Object rebuild_typed(PyObject* object);

  std::span<const Object> tensors_;
  std::size_t next_ = 0;
  bool copy_containers_;
  const Walker* call_;
};

}  // namespace graphtune::python
