#pragma once

#include <cstdint>
#include <optional>

#include <Python.h>

#include "graphtune/tensor.h"

namespace at {
class Tensor;
}

/// The Python side of graphtune. Everything here is called with the GIL held.
namespace graphtune::python {

// torch tensors as the core sees them. tensor_access.cpp is the only file that includes torch's
// python_variable.h, which takes a gigabyte to compile; code that works on at::Tensor includes
// ATen's own headers beside this one.

/// torch.Tensor, Parameter or any subclass. False for everything while torch is not imported.
[[nodiscard]] bool is_tensor_type(PyTypeObject* type) noexcept;
[[nodiscard]] inline bool is_tensor(PyObject* object) noexcept {
  return is_tensor_type(Py_TYPE(object));
}

enum class TensorState : std::uint8_t {
  Plain,    ///< a tensor with sizes and (but for meta tensors) memory
  Virtual,  ///< stands for another tensor while a call is traced or transformed: FakeTensor, vmap,
            ///< grad …
  Foreign,  ///< runs code of its own (__torch_dispatch__, __torch_function__) or has no plain sizes
            ///< (nested): opaque to graphtune
};

/// Fills `view`, without allocating, from a tensor (is_tensor); it is valid while the tensor lives
/// and keeps its sizes. `data` is null unless Plain; after Foreign the view is not to be used.
[[nodiscard]] TensorState view_of(PyObject* tensor, TensorView& view);

/// The tensor behind its Python object; lives as long as that.
[[nodiscard]] const at::Tensor& tensor_of(PyObject* tensor) noexcept;
/// A new reference to the tensor's Python object (the same one if it has one).
[[nodiscard]] PyObject* wrap(const at::Tensor& tensor);

/// Shares the memory of a strided tensor with the core; the result keeps the tensor alive. Lazy
/// conjugations and negations are carried out (a copy then). Throws TypeError for other layouts and
/// tensors without memory.
[[nodiscard]] Tensor to_core(PyObject* tensor);
/// Whether the tensor's values are what stands in its strided memory, so that it can be read there:
/// not so where it stands for another one, is conjugated or negated lazily, or has no elements.
/// Fills in `view` as view_of does.
[[nodiscard]] bool has_readable_memory(PyObject* tensor, TensorView& view);
/// A contiguous tensor for an engine. Where `may_lend`, the memory of one that is contiguous as it
/// is stays the caller's: valid while the Python object lives, and is_lent().
[[nodiscard]] Tensor to_engine(PyObject* tensor, bool may_lend);
/// The tensor does not keep its memory alive.
[[nodiscard]] bool is_lent(const Tensor& tensor) noexcept;
/// A new reference to a torch tensor over the core tensor's memory, which it keeps alive.
[[nodiscard]] PyObject* from_core(const Tensor& tensor);

/// Tells tensors apart: equal for two Python objects of one tensor.
[[nodiscard]] const void* identity_of(PyObject* tensor) noexcept;

/// Where a strided tensor's elements lie: [begin, end) within `storage`. Null storage: no memory.
struct MemoryRange {
  const void* storage = nullptr;
  const char* begin = nullptr;
  const char* end = nullptr;

  [[nodiscard]] bool overlaps(const MemoryRange& other) const noexcept {
    return storage != nullptr && storage == other.storage && begin < other.end && other.begin < end;
  }
};
[[nodiscard]] MemoryRange memory_of(PyObject* tensor);

/// Counts in-place writes (views share it). Null for inference tensors, which have none.
[[nodiscard]] std::optional<std::uint32_t> version_of(PyObject* tensor);

/// A new reference to a copy outside of autograd that keeps sizes and the order of strides.
[[nodiscard]] PyObject* clone(PyObject* tensor);
/// Same type, sizes and values; NaN equals NaN.
[[nodiscard]] bool same_values(PyObject* a, PyObject* b);

/// A new reference to the torch.dtype.
[[nodiscard]] PyObject* dtype_to_python(DType dtype);
/// Throws TypeError unless it is a torch.dtype.
[[nodiscard]] DType dtype_from_python(PyObject* object);

/// Translates the exception of torch that is being handled to a Python error; false if it is not
/// torch's.
bool translate_torch_exception(const std::exception_ptr& exception);

}  // namespace graphtune::python
