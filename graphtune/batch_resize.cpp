// Tensors brought to their sizes.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "graphtune/batch.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

/// Dense strides for `sizes` in the order of the given strides (the memory format), as torch's
/// preserve_format chooses them for tensors that overlap or have gaps.
Dims dense_strides_like(const std::int64_t* strides, const std::int64_t* old_sizes,
                        const Dims& sizes) {
  std::vector<std::size_t> order(sizes.size());  // from the innermost dimension out
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  // 1: a must be further out than b, -1: further in, 0: either.
  const auto compare = [&](std::size_t a, std::size_t b) {
    if (strides[a] == 0 || strides[b] == 0) {
      return 0;
    }
    if (strides[a] != strides[b]) {
      return strides[a] > strides[b] ? 1 : -1;
    }
    return old_sizes[a] > old_sizes[b] ? 1 : 0;
  };
  // "Either" makes this no strict order: an insertion sort, which is all that ranks need.
  for (std::size_t i = 1; i < order.size(); ++i) {
    std::size_t moved = i;
    for (std::size_t j = i; j-- > 0;) {
      const int outer = compare(order[j], order[moved]);
      if (outer > 0) {
        std::swap(order[j], order[moved]);
        moved = j;
      } else if (outer < 0) {
        break;
      }
    }
  }
  Dims result = sizes;
  std::int64_t step = 1;
  for (const std::size_t dimension : order) {
    result[dimension] = step;
    step *= std::max<std::int64_t>(sizes[dimension], 1);
  }
  return result;
}

/// Copies rows of a strided tensor into a dense one.
class Gather {
 public:
  Gather(const TensorView& source, std::span<const AxisResize> axes, const Dims& target_strides)
      : block_(static_cast<std::int64_t>(item_size(source.dtype))), dimensions_(scratch()) {
    dimensions_.resize(static_cast<std::size_t>(source.rank));
    for (std::size_t i = 0; i < dimensions_.size(); ++i) {
      dimensions_[i] = {source.strides[i] * block_, target_strides[i] * block_, 1, source.sizes[i],
                        source.sizes[i]};
    }
    for (const AxisResize& axis : axes) {
      Dimension& dimension = dimensions_[axis.axis];
      dimension.blocks = axis.multiplier;
      dimension.current = axis.current;
      dimension.target = axis.target;
    }
    // One row is no loop, and its stride means nothing.
    dimensions_.erase(std::remove_if(dimensions_.begin(), dimensions_.end(),
                                     [](const Dimension& dimension) {
                                       return dimension.blocks == 1 && dimension.target == 1;
                                     }),
                      dimensions_.end());
    std::sort(dimensions_.begin(), dimensions_.end(), [](const Dimension& a, const Dimension& b) {
      return a.target_stride > b.target_stride;
    });
    fuse_inner();
  }
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;

  void copy(const void* source, void* target) const {
    copy(0, static_cast<const char*>(source), static_cast<char*>(target));
  }

 private:
  /// `blocks` blocks of `current` rows in the source, of `target` rows, repeated in turn, in the
  /// result.
  struct Dimension {
    std::int64_t source_stride = 0;  // bytes
    std::int64_t target_stride = 0;
    std::int64_t blocks = 1;
    std::int64_t current = 0;
    std::int64_t target = 0;
  };

  static std::vector<Dimension>& scratch() {
    thread_local std::vector<Dimension> dimensions;  // keeps its memory
    return dimensions;
  }

  /// Inner dimensions that lie in one run of memory on both sides are one block of bytes.
  void fuse_inner() {
    while (!dimensions_.empty()) {
      const Dimension& inner = dimensions_.back();
      if (inner.source_stride != block_ || inner.target_stride != block_) {
        return;
      }
      if (inner.current != inner.target) {
        inner_ = inner;
        dimensions_.pop_back();
        return;
      }
      block_ *= inner.blocks * inner.target;
      dimensions_.pop_back();
    }
  }

  void copy(std::size_t depth, const char* source, char* target) const {
    if (depth == dimensions_.size()) {
      copy_block(source, target);
      return;
    }
    const Dimension& dimension = dimensions_[depth];
    for (std::int64_t block = 0; block < dimension.blocks; ++block) {
      const char* const first = source + block * dimension.current * dimension.source_stride;
      std::int64_t from = 0;
      for (std::int64_t row = 0; row < dimension.target; ++row) {
        copy(depth + 1, first + from * dimension.source_stride, target);
        target += dimension.target_stride;
        from = from + 1 == dimension.current ? 0 : from + 1;
      }
    }
  }

  void copy_block(const char* source, char* target) const {
    if (!inner_) {
      std::memcpy(target, source, static_cast<std::size_t>(block_));
      return;
    }
    for (std::int64_t block = 0; block < inner_->blocks; ++block) {
      for (std::int64_t row = 0; row < inner_->target; row += inner_->current) {
        const std::int64_t bytes = std::min(inner_->current, inner_->target - row) * block_;
        std::memcpy(target, source, static_cast<std::size_t>(bytes));
        target += bytes;
      }
      source += inner_->current * block_;
    }
  }

  std::int64_t block_;                  // bytes
  std::vector<Dimension>& dimensions_;  // from the outermost in, without those that are fused
  std::optional<Dimension> inner_;      // of blocks; none: one block
};

/// The same tensor with its first rows only along the axes of one block that shrink; those axes are
/// taken from `axes`.
Tensor shrink(const Tensor& tensor, std::vector<AxisResize>& axes) {
  Dims sizes = tensor.sizes();
  for (const AxisResize& axis : axes) {
    if (axis.multiplier == 1 && axis.target < axis.current) {
      sizes[axis.axis] = axis.target;
    }
  }
  axes.erase(std::remove_if(axes.begin(), axes.end(),
                            [](const AxisResize& axis) {
                              return axis.target == axis.current ||
                                     (axis.multiplier == 1 && axis.target < axis.current);
                            }),
             axes.end());
  return {tensor.data(),   tensor.dtype(),       sizes, tensor.strides(), tensor.owner(),
          tensor.device(), tensor.device_index()};
}

}  // namespace

std::vector<std::int64_t> source_rows(const AxisResize& resize) {
  std::vector<std::int64_t> rows;
  rows.reserve(static_cast<std::size_t>(resize.multiplier * resize.target));
  for (std::int64_t block = 0; block < resize.multiplier; ++block) {
    for (std::int64_t row = 0; row < resize.target; ++row) {
      rows.push_back(block * resize.current + row % resize.current);
    }
  }
  return rows;
}

ResizedLayout resized_layout(const TensorView& source, std::span<const AxisResize> axes) {
  ResizedLayout layout{Dims(source.shape()), {}};
  for (const AxisResize& axis : axes) {
    layout.sizes[axis.axis] = axis.multiplier * axis.target;
  }
  layout.strides = source.is_contiguous()
                       ? contiguous_strides(layout.sizes.span())
                       : dense_strides_like(source.strides, source.sizes, layout.sizes);
  return layout;
}

void copy_rows(const TensorView& source, std::span<const AxisResize> axes,
               const Dims& target_strides, void* target) {
  Gather(source, axes, target_strides).copy(source.data, target);
}

Tensor resize(const Tensor& tensor, const std::vector<AxisResize>& axes) {
  if (axes.empty()) {
    return tensor;
  }
  for (const AxisResize& axis : axes) {
    std::int64_t rows = 0;
    const bool fits = axis.axis < tensor.sizes().size() && axis.multiplier > 0 &&
                      axis.current > 0 && axis.target > 0 &&
                      tensor.sizes()[axis.axis] % axis.multiplier == 0 &&
                      tensor.sizes()[axis.axis] / axis.multiplier == axis.current &&
                      !__builtin_mul_overflow(axis.multiplier, axis.target, &rows);
    if (!fits) {
      throw ValueError(fmt::format(
          "axis {} of a tensor of sizes [{}] can't be brought from {} blocks of {} "
          "rows to blocks of {}",
          axis.axis, fmt::join(tensor.sizes(), ", "), axis.multiplier, axis.current, axis.target));
    }
  }
  std::vector<AxisResize> copied = axes;
  Tensor view = shrink(tensor, copied);
  if (copied.empty()) {
    return view;
  }
  if (tensor.device() != DeviceType::Cpu) {
    throw ValueError(fmt::format("a tensor on {} can't be resized here: only CPU tensors can",
                                 to_string(tensor.device())));
  }
  const ResizedLayout layout = resized_layout(view.view(), copied);
  const Tensor memory = Tensor::empty(tensor.dtype(), layout.sizes);
  Tensor result(memory.data(), tensor.dtype(), layout.sizes, layout.strides, memory.owner());
  if (result.element_count() > 0) {
    copy_rows(view.view(), copied, layout.strides, result.data());
  }
  return result;
}

}  // namespace graphtune
