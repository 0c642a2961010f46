#include "graphtune/batch.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

std::string place(const CallTree& tree, std::size_t tensor) {
  const std::string text = tree.tensor_locators()[tensor].shown();
  return text.empty() ? "the result" : text;
}

/// True when the tensors of both trees stand at the same places, which is read off the structure
/// without making a locator: the trees' nodes agree but for leaves that are no tensors.
bool have_same_places(const CallTree& a, const CallTree& b) {
  if (a.kind() != b.kind() || a.nodes().size() != b.nodes().size()) {
    return false;
  }
  for (std::uint32_t position = 0; position < a.nodes().size(); ++position) {
    const Node& x = a.nodes()[a.node_at(position)];
    const Node& y = b.nodes()[b.node_at(position)];
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
  std::vector<std::size_t> matches(tree.tensors().size());
  if (have_same_places(known, tree)) {
    for (std::size_t i = 0; i < matches.size(); ++i) {
      matches[tree.tensor_at(i)] = i;
    }
    return matches;
  }
  std::unordered_map<std::string, std::size_t> canonical_at;
  const std::vector<Locator> known_places = known.tensor_locators();
  for (std::size_t i = 0; i < known_places.size(); ++i) {
    canonical_at[known_places[known.tensor_at(i)].to_string()] = i;
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
    throw ValueError(fmt::format("make_batch: the tensor {} is missing", missing->shown()));
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
