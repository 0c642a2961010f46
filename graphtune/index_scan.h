#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graphtune/tensor.h"

namespace graphtune {

/// Integer types that can index a table: int8 … int64 and uint8.
[[nodiscard]] bool is_index_dtype(DType dtype) noexcept;

/// Where a tensor holds a value outside a range.
struct IndexViolation {
  std::int64_t value = 0;
  std::vector<std::int64_t> position;
};

/// The first value outside [low, high] of a CPU tensor of an index dtype, whatever its strides; no
/// allocation when there is none.
[[nodiscard]] std::optional<IndexViolation> find_index_violation(const TensorView& tensor,
                                                                 std::int64_t low,
                                                                 std::int64_t high);

}  // namespace graphtune
