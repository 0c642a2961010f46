#include "graphtune/batch.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

// Planning ----------------------------------------------------------------------------------------

std::string place(const CallTree& tree, std::size_t tensor) {
  const std::string text = tree.tensor_locators()[tensor].to_string();
  return text.empty() ? "the result" : text;
}

/// True when the tensors of both trees stand at the same places, which is read off the structure
/// without making a locator: the trees' nodes agree but for leaves that are no tensors.
bool have_same_places(const CallTree& a, const CallTree& b) {
  if (a.kind() != b.kind() || a.nodes().size() != b.nodes().size()) {
    return false;
  }
  const auto node_at = [](const CallTree& tree, std::size_t position) -> const Node& {
    return tree.nodes()[tree.is_canonical() ? position : tree.canonical_order()[position]];
  };
  for (std::size_t position = 0; position < a.nodes().size(); ++position) {
    const Node& x = node_at(a, position);
    const Node& y = node_at(b, position);
    const bool same_kind = (x.kind == NodeKind::Tensor) == (y.kind == NodeKind::Tensor) &&
                           x.child_count == y.child_count;
    const bool same_step = x.step == y.step && x.index == y.index &&
                           (x.step == Step::Kind::Index || a.keys()[x.key] == b.keys()[y.key]);
    if (!same_kind || !same_step) {
      return false;
    }
  }
  return true;
}

/// For each tensor of `tree`, in the caller's order, the canonical index of the metadata's tensor
/// at its place.
std::vector<std::size_t> match_tensors(const SampleMetadata& metadata, const CallTree& tree) {
  const CallTree& known = metadata.tree();
  const auto index_at = [](const CallTree& t, std::size_t canonical) -> std::size_t {
    return t.is_canonical() ? canonical : t.tensor_order()[canonical];
  };
  std::vector<std::size_t> matches(tree.tensors().size());
  if (have_same_places(known, tree)) {
    for (std::size_t i = 0; i < matches.size(); ++i) {
      matches[index_at(tree, i)] = i;
    }
    return matches;
  }
  std::unordered_map<std::string, std::size_t> canonical_at;
  const std::vector<Locator> known_places = known.tensor_locators();
  for (std::size_t i = 0; i < known_places.size(); ++i) {
    canonical_at[known_places[index_at(known, i)].to_string()] = i;
  }
  const std::vector<Locator> places = tree.tensor_locators();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto found = canonical_at.find(places[i].to_string());
    if (found == canonical_at.end()) {
      throw ValueError(
          fmt::format("make_batch: {} is a tensor that no sample had: its batch axes are not known",
                      place(tree, i)));
    }
    matches[i] = found->second;
    canonical_at.erase(found);
  }
  if (!canonical_at.empty()) {
    const auto missing = std::find_if(
        known_places.begin(), known_places.end(),
        [&](const Locator& locator) { return canonical_at.contains(locator.to_string()); });
    throw ValueError(fmt::format("make_batch: the tensor {} is missing", missing->to_string()));
  }
  return matches;
}

AxisResize plan_axis(const CallTree& tree, std::size_t tensor, std::size_t axis,
                     std::int64_t multiplier, std::int64_t batch_size) {
  const std::int64_t size = tree.tensors()[tensor].sizes[axis];
  if (size % multiplier != 0) {
    throw ValueError(
        fmt::format("make_batch: axis {} of {} has size {}, but must be a multiple of {}: it is "
                    "{} times the batch size",
                    axis, place(tree, tensor), size, multiplier, multiplier));
  }
  const AxisResize resize{axis, multiplier, size / multiplier, batch_size};
  std::int64_t rows = 0;
  if (__builtin_mul_overflow(multiplier, batch_size, &rows)) {
    throw ValueError(
        fmt::format("make_batch: batch_size {} is too large for axis {} of {}, which "
                    "is {} times the batch size",
                    batch_size, axis, place(tree, tensor), multiplier));
  }
  if (resize.current == 0) {
    throw ValueError(
        fmt::format("make_batch: {} is empty along its batch axis {}: there is no row that could "
                    "be repeated",
                    place(tree, tensor), axis));
  }
  return resize;
}

// Resizing ----------------------------------------------------------------------------------------

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

/// Tensors of a call in the caller's order, put back into its structure.
class Rebuilder {
 public:
  explicit Rebuilder(const BatchPlan& plan) : plan_(plan) {}

  /// The value itself where nothing in it changes.
  Value rebuild(const Value& value) {
    if (value.is_constant()) {
      return value;
    }
    if (value.is_tensor()) {
      const std::vector<AxisResize>& axes = plan_.tensors[next_++];
      changed_ = !axes.empty();
      return changed_ ? Value(resize(value.tensor(), axes)) : value;
    }
    std::vector<Value> children;
    bool any_changed = false;
    children.reserve(value.size());
    for (const auto& [step, child] : value.container().children) {
      changed_ = false;
      children.push_back(rebuild(child));
      any_changed |= changed_;
    }
    changed_ = any_changed;
    if (!any_changed) {
      return value;
    }
    const Container& old = value.container();
    Container container{old.kind, old.type, {}};
    container.children.reserve(children.size());
    for (std::size_t i = 0; i < children.size(); ++i) {
      container.children.emplace_back(old.children[i].first, std::move(children[i]));
    }
    return Value::container(std::move(container));
  }

 private:
  const BatchPlan& plan_;
  std::size_t next_ = 0;
  bool changed_ = false;
};

}  // namespace

BatchPlan plan_batch(const SampleMetadata& metadata, const CallTree& tree,
                     std::int64_t batch_size) {
  check_batch_size(batch_size);
  const std::vector<std::size_t> matches = match_tensors(metadata, tree);
  const std::vector<AxisFacts>& axes = metadata.learner().axes();
  const std::vector<std::uint32_t>& offsets = metadata.axis_offsets();
  BatchPlan plan;
  plan.tensors.resize(tree.tensors().size());
  for (std::size_t i = 0; i < matches.size(); ++i) {
    const TensorView& tensor = tree.tensors()[i];
    const std::uint32_t first = offsets[matches[i]];
    const std::uint32_t rank = offsets[matches[i] + 1] - first;
    if (static_cast<std::int64_t>(rank) != tensor.rank) {
      throw ValueError(fmt::format("make_batch: the tensor {} must have rank {}, not {}",
                                   place(tree, i), rank, tensor.rank));
    }
    if (tensor.shape().size() != rank) {
      throw ValueError("make_batch: the call tree is detached from its tensors");
    }
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const AxisFacts& facts = axes[first + axis];
      if (facts.axis_class != AxisClass::Batch) {
        continue;
      }
      const AxisResize resize = plan_axis(tree, i, axis, facts.multiplier, batch_size);
      if (resize.current != batch_size) {
        plan.tensors[i].push_back(resize);
      }
    }
  }
  return plan;
}

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

Arguments make_batch(const SampleMetadata& metadata, const Arguments& arguments,
                     std::int64_t batch_size) {
  thread_local CallTree tree;  // keeps its memory
  flatten(arguments, tree);
  const BatchPlan plan = plan_batch(metadata, tree, batch_size);
  Rebuilder rebuilder(plan);
  Arguments result;
  result.positional.reserve(arguments.positional.size());
  for (const Value& value : arguments.positional) {
    result.positional.push_back(rebuilder.rebuild(value));
  }
  result.named.reserve(arguments.named.size());
  for (const auto& [name, value] : arguments.named) {
    result.named.emplace_back(name, rebuilder.rebuild(value));
  }
  return result;
}

}  // namespace graphtune
