#include "graphtune/shape_learner.h"

#include <algorithm>

#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/shape_learner_impl.h"

namespace graphtune {

ShapeLearner::Cache& ShapeLearner::Cache::operator=(const Cache& other) {
  if (this != &other) {
    std::shared_ptr<const Derived> derived = other.get();
    const std::lock_guard lock(mutex_);
    derived_ = std::move(derived);
  }
  return *this;
}

std::shared_ptr<const ShapeLearner::Derived> ShapeLearner::Cache::get() const {
  const std::lock_guard lock(mutex_);
  return derived_;
}

const ShapeLearner::Derived& ShapeLearner::Cache::set(
    std::shared_ptr<const Derived> derived) const {
  const std::lock_guard lock(mutex_);
  if (!derived_) {
    derived_ = std::move(derived);
  }
  return *derived_;
}

void ShapeLearner::Cache::reset() {
  const std::lock_guard lock(mutex_);
  derived_.reset();
}

ShapeLearner::ShapeLearner(std::vector<std::uint32_t> offsets)
    : ShapeLearner(std::make_shared<const std::vector<std::uint32_t>>(std::move(offsets))) {}

ShapeLearner::ShapeLearner(std::shared_ptr<const std::vector<std::uint32_t>> offsets)
    : observations_(offsets->empty() ? 0 : offsets->back()) {
  set_tensors(std::move(offsets));
}

void ShapeLearner::set_tensors(std::shared_ptr<const std::vector<std::uint32_t>> offsets) {
  if (offsets->empty() || offsets->front() != 0 ||
      !std::is_sorted(offsets->begin(), offsets->end())) {
    throw ValueError("the offsets of the tensors' axes must begin with 0 and never fall");
  }
  if (offsets->back() != axis_count()) {
    throw ValueError(fmt::format("tensors with {} axes in all were given for {} axes",
                                 offsets->back(), axis_count()));
  }
  offsets_ = std::move(offsets);
  cache_.reset();
}

std::vector<std::uint32_t> ShapeLearner::tensor_offsets() const {
  return offsets_ ? *offsets_
                  : std::vector<std::uint32_t>{0, static_cast<std::uint32_t>(axis_count())};
}

bool ShapeLearner::observe(const Observation& observation) {
  return observe(ObservationSet::Row{observation.batch_size, observation.label, observation.sizes});
}

bool ShapeLearner::observe(std::int64_t batch_size, std::span<const std::int64_t> sizes) {
  return observe(ObservationSet::Row{batch_size, BatchLabel::Stated, sizes});
}

bool ShapeLearner::observe(ObservationSet::Row row) {
  if (row.sizes.size() != axis_count()) {
    throw ValueError(fmt::format("an observation of {} sizes was given for {} axes",
                                 row.sizes.size(), axis_count()));
  }
  if (row.batch_size < 0) {
    throw ValueError(fmt::format("batch_size must be at least 1, or 0 when it is not known: {}",
                                 row.batch_size));
  }
  for (std::size_t axis = 0; axis < axis_count(); ++axis) {
    if (row.sizes[axis] < 0) {
      throw ValueError(fmt::format("the size of axis {} is negative: {}", axis, row.sizes[axis]));
    }
  }
  if (row.batch_size == 0) {
    row.label = BatchLabel::Stated;  // how sure an unknown batch size is says nothing
  }
  const bool changed = observations_.insert(row);
  if (changed) {
    cache_.reset();
  }
  return changed;
}

bool ShapeLearner::knows(std::int64_t batch_size,
                         std::span<const std::int64_t> sizes) const noexcept {
  return sizes.size() == axis_count() &&
         observations_.covers({batch_size, BatchLabel::Stated, sizes});
}

bool ShapeLearner::has_tensors_of(const ShapeLearner& other) const noexcept {
  if (axis_count() != other.axis_count()) {
    return false;
  }
  const auto is_one_tensor = [](const ShapeLearner& learner) {
    return !learner.offsets_ || learner.offsets_->size() == 2;
  };
  return offsets_ == other.offsets_ || (is_one_tensor(*this) && is_one_tensor(other)) ||
         (offsets_ && other.offsets_ && *offsets_ == *other.offsets_);
}

void ShapeLearner::merge(const ShapeLearner& other) {
  if (!has_tensors_of(other)) {
    throw ValueError(
        fmt::format("what was learned of {} axes in {} tensors can't be merged with what was "
                    "learned of {} axes in {} tensors",
                    axis_count(), tensor_offsets().size() - 1, other.axis_count(),
                    other.tensor_offsets().size() - 1));
  }
  if (observations_.merge(other.observations_)) {
    cache_.reset();
  }
}

ShapeLearner ShapeLearner::project(std::size_t first, std::size_t count) const {
  if (first > axis_count() || count > axis_count() - first) {
    throw ValueError(
        fmt::format("axes {} to {} of {} were asked for", first, first + count, axis_count()));
  }
  ShapeLearner part(count);
  if (offsets_) {
    std::vector<std::uint32_t> offsets{0};
    for (auto offset = std::upper_bound(offsets_->begin(), offsets_->end(), first);
         offset != offsets_->end() && *offset < first + count; ++offset) {
      offsets.push_back(*offset - static_cast<std::uint32_t>(first));
    }
    offsets.push_back(static_cast<std::uint32_t>(count));
    if (offsets.size() > 2) {
      part = ShapeLearner(std::move(offsets));
    }
  }
  const std::vector<std::int64_t>& batches = derived().batches;
  for (std::size_t i = 0; i < observations_.size(); ++i) {
    ObservationSet::Row row = observations_[i];
    row.sizes = row.sizes.subspan(first, count);
    if (!batches.empty()) {
      const bool met = row.batch_size == batches[i] && row.label != BatchLabel::Inferred;
      row.label = batches[i] == 0 ? BatchLabel::Stated
                  : met           ? BatchLabel::Certain
                                  : BatchLabel::Inferred;
      row.batch_size = batches[i];
    }
    part.observations_.insert(row);
  }
  if (const auto& dropped = observations_.dropped()) {
    const auto slice = [&](const std::vector<std::int64_t>& values) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
      return std::vector<std::int64_t>(begin, begin + static_cast<std::ptrdiff_t>(count));
    };
    part.observations_.widen(
        {slice(dropped->min), slice(dropped->max), dropped->min_batch, dropped->max_batch});
  }
  return part;
}

const ShapeLearner::Derived& ShapeLearner::derived() const {
  if (const std::shared_ptr<const Derived> known = cache_.get()) {
    return *known;
  }
  return cache_.set(std::make_shared<const Derived>(derive()));
}

const std::vector<AxisFacts>& ShapeLearner::axes() const& { return derived().axes; }

const std::vector<SymbolRange>& ShapeLearner::symbols() const& { return derived().symbols; }

std::optional<std::pair<std::int64_t, std::int64_t>> ShapeLearner::batch_range() const {
  return derived().batch_range;
}

std::vector<Observation> ShapeLearner::observations() const {
  std::vector<Observation> all;
  all.reserve(observations_.size());
  for (std::size_t i = 0; i < observations_.size(); ++i) {
    const ObservationSet::Row row = observations_[i];
    all.push_back({row.batch_size, {row.sizes.begin(), row.sizes.end()}, row.label});
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool operator==(const ShapeLearner& a, const ShapeLearner& b) noexcept {
  return a.has_tensors_of(b) && a.observations_ == b.observations_;
}

}  // namespace graphtune
