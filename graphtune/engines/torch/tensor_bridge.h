#pragma once

#include <cstddef>
#include <vector>

#include <ATen/Tensor.h>

#include "graphtune/tensor.h"

namespace graphtune {

/// A torch tensor over the same memory; it borrows, and owns nothing.
[[nodiscard]] at::Tensor borrow_as_torch(const Tensor& tensor);

/// Whether the memory of `tensors[index]` is of torch's allocator, and nobody holds it or a tensor
/// over it beside `tensors`. What isn't so (an input, a constant of the model) has to be copied, so
/// that nothing can change the result later, nor the result it.
[[nodiscard]] bool is_owned_by(const std::vector<at::Tensor>& tensors, std::size_t index);

/// Hands a torch tensor out, without a copy where its memory is `owned` by the results.
[[nodiscard]] Tensor take_from_torch(at::Tensor tensor, bool owned);

}  // namespace graphtune
