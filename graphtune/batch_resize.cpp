// Tensors brought to their sizes.
#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "graphtune/batch.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

/// Rows that follow one another in the source and in the result.
struct Run {
  std::int64_t source = 0;
  std::int64_t count = 0;
};

std::vector<Run> runs_of(const AxisResize& resize) {
  std::vector<Run> runs;
  for (std::int64_t block = 0; block < resize.multiplier; ++block) {
    for (std::int64_t row = 0; row < resize.target; row += resize.current) {
      runs.push_back({block * resize.current, std::min(resize.current, resize.target - row)});
    }
  }
  return runs;
}

/// Dense strides for `sizes` in the order of the given strides (the memory format), as torch's
/// preserve_format chooses them for tensors that overlap or have gaps.
Dims dense_strides_like(const Dims& strides, const Dims& old_sizes, const Dims& sizes) {
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
  Gather(const Tensor& source, const std::vector<AxisResize>& axes, Tensor& target)
      : item_(static_cast<std::int64_t>(item_size(source.dtype()))) {
    const std::size_t rank = source.sizes().size();
    dimensions_.resize(rank);
    for (std::size_t i = 0; i < rank; ++i) {
      Dimension& dimension = dimensions_[i];
      dimension.source_stride = source.strides()[i] * item_;
      dimension.target_stride = target.strides()[i] * item_;
      dimension.runs = {{0, source.sizes()[i]}};
    }
    for (const AxisResize& axis : axes) {
      dimensions_[axis.axis].runs = runs_of(axis);
    }
    // One row is no loop, and its stride means nothing.
    dimensions_.erase(std::remove_if(dimensions_.begin(), dimensions_.end(),
                                     [](const Dimension& dimension) {
                                       return dimension.runs.size() == 1 &&
                                              dimension.runs[0].count == 1;
                                     }),
                      dimensions_.end());
    std::sort(dimensions_.begin(), dimensions_.end(), [](const Dimension& a, const Dimension& b) {
      return a.target_stride > b.target_stride;
    });
    fuse_inner();
  }

  void copy(const void* source, void* target) const {
    copy(0, static_cast<const char*>(source), static_cast<char*>(target));
  }

 private:
  struct Dimension {
    std::int64_t source_stride = 0;  // bytes
    std::int64_t target_stride = 0;
    std::vector<Run> runs;
  };

  /// Inner dimensions that lie in one run of memory on both sides are one block of bytes.
  void fuse_inner() {
    block_ = item_;
    while (!dimensions_.empty()) {
      const Dimension& inner = dimensions_.back();
      if (inner.source_stride != block_ || inner.target_stride != block_) {
        return;
      }
      if (inner.runs.size() > 1 || inner.runs[0].source != 0) {
        inner_runs_ = inner.runs;
        dimensions_.pop_back();
        return;
      }
      block_ *= inner.runs[0].count;
      dimensions_.pop_back();
    }
  }

  void copy(std::size_t depth, const char* source, char* target) const {
    if (depth == dimensions_.size()) {
      copy_block(source, target);
      return;
    }
    const Dimension& dimension = dimensions_[depth];
    for (const Run& run : dimension.runs) {
      for (std::int64_t row = run.source; row < run.source + run.count; ++row) {
        copy(depth + 1, source + row * dimension.source_stride, target);
        target += dimension.target_stride;
      }
    }
  }

  void copy_block(const char* source, char* target) const {
    if (inner_runs_.empty()) {
      std::memcpy(target, source, static_cast<std::size_t>(block_));
      return;
    }
    for (const Run& run : inner_runs_) {
      std::memcpy(target, source + run.source * block_,
                  static_cast<std::size_t>(run.count * block_));
      target += run.count * block_;
    }
  }

  std::int64_t item_;
  std::int64_t block_ = 0;
  std::vector<Dimension> dimensions_;  // from the outermost in, without those that are fused
  std::vector<Run> inner_runs_;        // of blocks; empty: one block
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
  for (const Run& run : runs_of(resize)) {
    for (std::int64_t row = 0; row < run.count; ++row) {
      rows.push_back(run.source + row);
    }
  }
  return rows;
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
  Dims sizes = view.sizes();
  for (const AxisResize& axis : copied) {
    sizes[axis.axis] = axis.multiplier * axis.target;
  }
  const Tensor memory = Tensor::empty(tensor.dtype(), sizes);
  Tensor result(memory.data(), tensor.dtype(), sizes,
                dense_strides_like(view.strides(), view.sizes(), sizes), memory.owner());
  if (result.element_count() > 0) {
    Gather(view, copied, result).copy(view.data(), result.data());
  }
  return result;
}

}  // namespace graphtune
