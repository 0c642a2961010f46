#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graphtune/export.h"
#include "graphtune/tensor.h"

namespace graphtune {

/// How far a value may be from eager's: |actual - expected| <= absolute * scale + relative *
/// |expected|, where scale is the largest finite |expected| of the tensor, at least 1: rounding
/// errors of a sum grow with its terms, not with its result.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

/// The default for a dtype; zero for integers and bool.
///
/// Relative parts follow torch.testing.assert_close, widened for float32/float64, whose bounds are
/// meant for one operation while a whole model adds up thousands of them in another order.
[[nodiscard]] GRAPHTUNE_API Tolerance default_tolerance(DType dtype) noexcept;

/// The outcome of comparing one tensor with eager's.
struct Comparison {
  double max_absolute = 0;  ///< largest |actual - expected| over finite elements
  double max_relative = 0;  ///< the same over |expected|, where that is not 0
  std::int64_t outside =
      0;  ///< elements outside the tolerance, or NaN/Inf where eager is not (and the reverse)
  std::int64_t element_count = 0;
  std::string problem;  ///< empty when all is within; else what and where, the worst element named

  [[nodiscard]] bool ok() const noexcept { return problem.empty(); }
};

/// Compares a CPU tensor with eager's, element by element. Dtypes and sizes must be equal too;
/// `name` is used in the problem's text. Strided tensors of bool, integer, float and complex types;
/// a ValueError names any other.
[[nodiscard]] GRAPHTUNE_API Comparison compare(const Tensor& actual, const Tensor& expected,
                                               const Tolerance& tolerance, const std::string& name);

}  // namespace graphtune
