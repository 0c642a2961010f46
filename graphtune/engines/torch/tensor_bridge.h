#pragma once

#include <ATen/Tensor.h>

#include "graphtune/tensor.h"

namespace graphtune {

/// A torch tensor over the same memory; it borrows, and owns nothing.
[[nodiscard]] at::Tensor borrow_as_torch(const Tensor& tensor);

/// Hands a torch tensor out, without a copy where its memory is its own. Memory that torch's
/// allocator does not own (an input, a constant of the model) or that someone beside the `sharers`
/// given holds is copied, so that nothing can change the result later, nor the result it.
[[nodiscard]] Tensor take_from_torch(at::Tensor tensor, std::size_t sharers);

/// How many of `tensors` use the storage of `tensors[index]`, at least 1.
[[nodiscard]] std::size_t count_sharers(const std::vector<at::Tensor>& tensors, std::size_t index);

}  // namespace graphtune
