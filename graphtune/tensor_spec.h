#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graphtune/dtype.h"
#include "graphtune/shape_learner.h"

namespace graphtune {

/// An axis as printed: its only size, or "batchN" / "dimN" (N = the axis).
using ShapeEntry = std::variant<std::int64_t, std::string>;

/// A batch size as given by a user. Throws ValueError unless it is >= 1.
GRAPHTUNE_API void check_batch_size(std::int64_t batch_size);

/// One tensor over all samples seen: name, type, and what its axes turned out to be. A value:
/// copies are independent.
class GRAPHTUNE_API TensorSpec {
 public:
  /// Throws ValueError for a negative size and for batch_size < 1.
  TensorSpec(std::string name, std::vector<std::int64_t> shape, DType dtype,
             std::optional<std::int64_t> batch_size = std::nullopt,
             DeviceType device = DeviceType::Cpu, Layout layout = Layout::Strided);
  TensorSpec(std::string name, DType dtype, DeviceType device, Layout layout, ShapeLearner learner);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] DeviceType device() const noexcept { return device_; }
  [[nodiscard]] Layout layout() const noexcept { return layout_; }
  [[nodiscard]] std::size_t rank() const noexcept { return learner_.axis_count(); }
  [[nodiscard]] std::vector<ShapeEntry> shape() const;
  [[nodiscard]] std::vector<std::int64_t> min_shape() const;
  [[nodiscard]] std::vector<std::int64_t> max_shape() const;
  [[nodiscard]] bool has_batch_axis() const;
  [[nodiscard]] bool has_dynamic_axis() const;
  /// axis -> multiplier
  [[nodiscard]] std::map<std::size_t, std::int64_t> get_batch_axis_multipliers() const;
  [[nodiscard]] const ShapeLearner& learner() const noexcept { return learner_; }

  /// Same rank, dtype, device type and layout: the two can be one tensor of one graph.
  [[nodiscard]] bool matches(const TensorSpec& other) const noexcept;
  /// Learns from another sample of the same tensor. Throws ValueError, naming the tensor and what
  /// differs, unless matches(other); nothing is changed then.
  void update_shapes_seen(const TensorSpec& other);
  /// One line: `args_0: torch.float32 ['batch0', 5], min [1, 5], max [2, 5]`
  [[nodiscard]] std::string describe() const;
  friend GRAPHTUNE_API bool operator==(const TensorSpec& a, const TensorSpec& b);

 private:
  std::string name_;
  DType dtype_;
  DeviceType device_;
  Layout layout_;
  ShapeLearner learner_;
};

/// The axes of one tensor as they are printed.
[[nodiscard]] GRAPHTUNE_API std::vector<ShapeEntry> shape_of(std::span<const AxisFacts> axes);

/// `['batch0', 5]`, as Python prints a list.
[[nodiscard]] GRAPHTUNE_API std::string shape_to_string(const std::vector<ShapeEntry>& shape);
[[nodiscard]] GRAPHTUNE_API std::string shape_to_string(std::span<const std::int64_t> shape);

}  // namespace graphtune
