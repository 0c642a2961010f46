#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graphtune/call_key.h"
#include "graphtune/call_tree.h"
#include "graphtune/shape_learner.h"
#include "graphtune/tensor_spec.h"

namespace graphtune {

enum class InfoLevel : std::uint8_t {
  Short,   ///< tensor names
  Medium,  ///< locators and shapes
  Full,    ///< also ranges and dtypes, in a grid
};

/// The tensors and constants of one call or result, and what several samples of the same graph
/// taught about shapes.
///
/// Equality and hash mean "same execution graph" (the CallKey), whatever was learned. Tensor rows
/// stand in the order of the first call, constants by name. Not synchronised.
class GRAPHTUNE_API SampleMetadata {
 public:
  /// Copies what it needs from the tree: it may be reused at once. Throws ValueError for batch_size
  /// < 1.
  SampleMetadata(const CallTree& tree, bool strict,
                 std::optional<std::int64_t> batch_size = std::nullopt);
  /// From parts that were stored (JSON): `learner` is of the axes of all tensors in canonical
  /// order. Throws ValueError when their number differs.
  SampleMetadata(CallTree detached, bool strict, ShapeLearner learner);

  [[nodiscard]] const CallTree& tree() const noexcept { return tree_; }
  [[nodiscard]] const CallKey& key() const noexcept { return key_; }
  [[nodiscard]] bool strict() const noexcept { return strict_; }
  /// Axes of all tensors in canonical order.
  [[nodiscard]] const ShapeLearner& learner() const noexcept { return learner_; }
  /// First axis in learner() of the tensor with the given canonical index; [tensor count] is the
  /// axis count.
  [[nodiscard]] const std::vector<std::uint32_t>& axis_offsets() const noexcept {
    return *axis_offsets_;
  }

  [[nodiscard]] std::size_t tensor_count() const noexcept { return tree_.tensors().size(); }
  /// In the order of the call.
  [[nodiscard]] std::vector<std::pair<Locator, TensorSpec>> tensor_data() const;
  [[nodiscard]] std::vector<TensorSpec> tensor_specs() const;
  /// Strict: constants (and opaque leaves as their type names) by name, numbers in names compared
  /// as numbers; else empty.
  [[nodiscard]] std::vector<std::pair<Locator, Constant>> other_data() const;
  /// Locators of opaque leaves (objects of unregistered classes): a graph that has one is not
  /// tuned.
  [[nodiscard]] std::vector<Locator> opaque_data() const;

  /// Learns from another sample of the same graph. Throws ValueError that names the first
  /// difference (locator, rank, dtype, constant …) when the graphs differ; nothing is changed then.
  void update_shapes_seen(const SampleMetadata& other);
  /// The same without building metadata: `tree` must have this graph's key (checked by the caller).
  /// False if known.
  bool observe(const CallTree& tree, std::optional<std::int64_t> batch_size);

  /// The sections "Tensors" and, in strict mode where there are any, "Other", as a line of names or
  /// as tables. No trailing newline.
  [[nodiscard]] std::string describe(InfoLevel level) const;

  struct AxisReport {
    Locator locator;
    std::string name;
    std::size_t axis = 0;
    AxisFacts facts;
    AxisExplanation explanation;
  };
  /// One entry an axis, in the order of the call.
  [[nodiscard]] std::vector<AxisReport> explain() const;

  friend bool operator==(const SampleMetadata& a, const SampleMetadata& b) noexcept {
    return a.key_ == b.key_;
  }

 private:
  struct OtherRow {
    Locator locator;
    std::string name;
    Constant value;
  };
  [[nodiscard]] std::vector<OtherRow> other_rows() const;
  [[nodiscard]] std::string describe_tensors(InfoLevel level) const;
  [[nodiscard]] std::string describe_others(InfoLevel level) const;

  CallTree tree_;
  CallKey key_;
  bool strict_;
  std::shared_ptr<const std::vector<std::uint32_t>>
      axis_offsets_;  // shared with the learner and with copies
  ShapeLearner learner_;
};

/// The first difference of two graphs, for messages: "tensor ['x'] has rank 2, here 3"; empty when
/// there is none.
[[nodiscard]] GRAPHTUNE_API std::string describe_difference(const SampleMetadata& known,
                                                            const SampleMetadata& given);

/// Replaces `sizes` by all tensors' sizes in canonical order, one after another. Throws ValueError
/// for a detached tree.
GRAPHTUNE_API void collect_sizes(const CallTree& tree, std::vector<std::int64_t>& sizes);

}  // namespace graphtune
