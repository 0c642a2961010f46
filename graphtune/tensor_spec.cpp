#include "graphtune/tensor_spec.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

ShapeEntry entry_of(std::size_t axis, const AxisFacts& facts) {
  switch (facts.axis_class) {
    case AxisClass::Static:
      break;
    case AxisClass::Batch:
      return fmt::format("batch{}", axis);
    case AxisClass::Dynamic:
      return fmt::format("dim{}", axis);
  }
  return facts.min;
}

bool has_class(const ShapeLearner& learner, AxisClass axis_class) {
  const std::vector<AxisFacts>& axes = learner.axes();
  return std::any_of(axes.begin(), axes.end(),
                     [&](const AxisFacts& axis) { return axis.axis_class == axis_class; });
}

std::vector<std::int64_t> sizes_of(const ShapeLearner& learner, std::int64_t AxisFacts::*which) {
  std::vector<std::int64_t> sizes;
  for (const AxisFacts& axis : learner.axes()) {
    sizes.push_back(axis.*which);
  }
  return sizes;
}

}  // namespace

TensorSpec::TensorSpec(std::string name, std::vector<std::int64_t> shape, DType dtype,
                       std::optional<std::int64_t> batch_size, DeviceType device, Layout layout)
    : name_(std::move(name)),
      dtype_(dtype),
      device_(device),
      layout_(layout),
      learner_(shape.size()) {
  if (batch_size) {
    check_batch_size(*batch_size);
  }
  learner_.observe(batch_size.value_or(0), shape);
}

TensorSpec::TensorSpec(std::string name, DType dtype, DeviceType device, Layout layout,
                       ShapeLearner learner)
    : name_(std::move(name)),
      dtype_(dtype),
      device_(device),
      layout_(layout),
      learner_(std::move(learner)) {}

std::vector<ShapeEntry> TensorSpec::shape() const { return shape_of(learner_.axes()); }

std::vector<std::int64_t> TensorSpec::min_shape() const {
  return sizes_of(learner_, &AxisFacts::min);
}

std::vector<std::int64_t> TensorSpec::max_shape() const {
  return sizes_of(learner_, &AxisFacts::max);
}

bool TensorSpec::has_batch_axis() const { return has_class(learner_, AxisClass::Batch); }

bool TensorSpec::has_dynamic_axis() const { return has_class(learner_, AxisClass::Dynamic); }

std::map<std::size_t, std::int64_t> TensorSpec::get_batch_axis_multipliers() const {
  std::map<std::size_t, std::int64_t> multipliers;
  const std::vector<AxisFacts>& axes = learner_.axes();
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis].axis_class == AxisClass::Batch) {
      multipliers[axis] = axes[axis].multiplier;
    }
  }
  return multipliers;
}

bool TensorSpec::matches(const TensorSpec& other) const noexcept {
  return rank() == other.rank() && dtype_ == other.dtype_ && device_ == other.device_ &&
         layout_ == other.layout_;
}

void TensorSpec::update_shapes_seen(const TensorSpec& other) {
  const auto refuse = [this](std::string_view what, auto known, auto given) {
    throw ValueError(
        fmt::format("tensor {} has {} {}, the other one has {}: they are of different graphs",
                    shorten_middle(name_), what, known, given));
  };
  if (rank() != other.rank()) {
    refuse("rank", rank(), other.rank());
  } else if (dtype_ != other.dtype_) {
    refuse("dtype", to_string(dtype_), to_string(other.dtype_));
  } else if (device_ != other.device_) {
    refuse("device", to_string(device_), to_string(other.device_));
  } else if (layout_ != other.layout_) {
    refuse("layout", to_string(layout_), to_string(other.layout_));
  }
  learner_.merge(other.learner_);
}

std::string TensorSpec::describe() const {
  return fmt::format("{}: torch.{} {}, min {}, max {}", shorten_middle(name_), to_string(dtype_),
                     shape_to_string(shape()), shape_to_string(min_shape()),
                     shape_to_string(max_shape()));
}

bool operator==(const TensorSpec& a, const TensorSpec& b) {
  return a.name_ == b.name_ && a.matches(b) && a.learner_ == b.learner_;
}

void check_batch_size(std::int64_t batch_size) {
  if (batch_size < 1) {
    throw ValueError(fmt::format("batch_size must be at least 1, not {}", batch_size));
  }
}

std::vector<ShapeEntry> shape_of(std::span<const AxisFacts> axes) {
  std::vector<ShapeEntry> shape;
  shape.reserve(axes.size());
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    shape.push_back(entry_of(axis, axes[axis]));
  }
  return shape;
}

std::string shape_to_string(const std::vector<ShapeEntry>& shape) {
  std::string text = "[";
  for (const ShapeEntry& entry : shape) {
    text += text.size() > 1 ? ", " : "";
    if (const auto* size = std::get_if<std::int64_t>(&entry)) {
      text += std::to_string(*size);
    } else {
      text += '\'' + std::get<std::string>(entry) + '\'';
    }
  }
  return text + "]";
}

std::string shape_to_string(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += text.size() > 1 ? ", " : "";
    text += std::to_string(size);
  }
  return text + "]";
}

}  // namespace graphtune
