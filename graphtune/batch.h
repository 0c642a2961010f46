#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graphtune/sample_metadata.h"
#include "graphtune/tensor.h"
#include "graphtune/value.h"

namespace graphtune {

/// One axis to bring to a batch size: `multiplier` stacked blocks of `current` rows each become
/// blocks of `target` rows.
struct AxisResize {
  std::size_t axis = 0;
  std::int64_t multiplier = 1;
  std::int64_t current = 0;  ///< rows of one block now
  std::int64_t target = 0;   ///< rows of one block then
};

/// What make_batch has to do: for each tensor, in the caller's order, its axes to resize (none:
/// left as it is).
struct BatchPlan {
  std::vector<std::vector<AxisResize>> tensors;
};

/// Plans the resize of a call with the learned batch axes. `tree` may have other constants than the
/// metadata, but must have its tensors at the same places. Throws ValueError naming the locator for
/// a missing tensor, a wrong rank, a batch axis whose size is no multiple of its multiplier, or an
/// empty batch that should grow; for batch_size < 1 too.
[[nodiscard]] GRAPHTUNE_API BatchPlan plan_batch(const SampleMetadata& metadata,
                                                 const CallTree& tree, std::int64_t batch_size);

/// Source row of each row of a resized axis: blocks resized one by one, rows repeated in turn
/// (0,1,2,0,1,2,0,1).
[[nodiscard]] GRAPHTUNE_API std::vector<std::int64_t> source_rows(const AxisResize& resize);

/// How a resized copy lies in memory: without gaps, its strides in the order of the given tensor's
/// (the memory format).
struct ResizedLayout {
  Dims sizes;
  Dims strides;
};

/// `source` is strided; each of `axes` fits its size.
[[nodiscard]] GRAPHTUNE_API ResizedLayout resized_layout(const TensorView& source,
                                                         std::span<const AxisResize> axes);
/// Copies the rows of `source`, which has elements in CPU memory, to `target`, which has room for
/// resized_layout() and those strides.
GRAPHTUNE_API void copy_rows(const TensorView& source, std::span<const AxisResize> axes,
                             const Dims& target_strides, void* target);

/// A CPU tensor brought to its sizes: the tensor itself when nothing is to do, a view when one
/// block shrinks, else a copy that keeps the order of its strides (memory format).
[[nodiscard]] GRAPHTUNE_API Tensor resize(const Tensor& tensor,
                                          const std::vector<AxisResize>& axes);

/// A call at another batch size. Containers and constants stay as they are.
[[nodiscard]] GRAPHTUNE_API Arguments make_batch(const SampleMetadata& metadata,
                                                 const Arguments& arguments,
                                                 std::int64_t batch_size);

}  // namespace graphtune
