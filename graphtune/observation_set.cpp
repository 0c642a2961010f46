#include "graphtune/observation_set.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "graphtune/hash.h"
#include "graphtune/mix.h"

namespace graphtune {
namespace {

std::uint64_t digest_of(const ObservationSet::Row& row) noexcept {
  const std::string_view bytes(reinterpret_cast<const char*>(row.sizes.data()),
                               row.sizes.size_bytes());
  return hash_bytes(bytes, mix64(static_cast<std::uint64_t>(row.batch_size)) +
                               static_cast<std::uint64_t>(row.label));
}

bool widen_range(std::int64_t& min, std::int64_t& max, std::int64_t low, std::int64_t high) {
  const bool wider = low < min || high > max;
  min = std::min(min, low);
  max = std::max(max, high);
  return wider;
}

}  // namespace

std::size_t ObservationSet::capacity() const noexcept {
  return std::clamp(kMaxSizes / std::max<std::size_t>(width_, 1), kMinRows, kMaxRows);
}

ObservationSet::Row ObservationSet::operator[](std::size_t index) const noexcept {
  const std::size_t slot = order_[index];
  return {heads_[slot].batch_size, heads_[slot].label, sizes_at(slot)};
}

std::pair<std::size_t, bool> ObservationSet::find(
    const Head& head, std::span<const std::int64_t> sizes) const noexcept {
  const auto key = [](const Head& h) { return std::tuple(h.digest, h.batch_size, h.label); };
  const auto place = std::lower_bound(
      order_.begin(), order_.end(), head, [&](std::uint32_t slot, const Head& wanted) {
        const auto known = key(heads_[slot]);
        const auto searched = key(wanted);
        if (known != searched) {
          return known < searched;
        }
        const auto other = sizes_at(slot);
        return std::lexicographical_compare(other.begin(), other.end(), sizes.begin(), sizes.end());
      });
  const auto index = static_cast<std::size_t>(place - order_.begin());
  const bool found = place != order_.end() && key(heads_[*place]) == key(head) &&
                     std::equal(sizes.begin(), sizes.end(), sizes_at(*place).begin());
  return {index, found};
}

bool ObservationSet::is_within_dropped(const Row& row) const noexcept {
  if (!dropped_) {
    return false;
  }
  if (row.batch_size > 0 && (dropped_->max_batch == 0 || row.batch_size < dropped_->min_batch ||
                             row.batch_size > dropped_->max_batch)) {
    return false;
  }
  for (std::size_t axis = 0; axis < width_; ++axis) {
    if (row.sizes[axis] < dropped_->min[axis] || row.sizes[axis] > dropped_->max[axis]) {
      return false;
    }
  }
  return true;
}

bool ObservationSet::covers(const Row& row) const noexcept {
  const auto [index, found] = find({digest_of(row), row.batch_size, row.label}, row.sizes);
  return found || (index == capacity() && is_within_dropped(row));
}

bool ObservationSet::insert(const Row& row) {
  const Head head{digest_of(row), row.batch_size, row.label};
  const auto [index, found] = find(head, row.sizes);
  if (found) {
    return false;
  }
  const auto drop = [this](const Row& unkept) {
    const bool changed = !is_within_dropped(unkept);
    widen({{unkept.sizes.begin(), unkept.sizes.end()},
           {unkept.sizes.begin(), unkept.sizes.end()},
           unkept.batch_size,
           unkept.batch_size});
    return changed;
  };
  if (index == capacity()) {
    return drop(row);
  }
  std::size_t slot = size();
  if (size() == capacity()) {
    drop((*this)[size() - 1]);
    slot = order_.back();
    order_.pop_back();
    heads_[slot] = head;
    std::copy(row.sizes.begin(), row.sizes.end(),
              sizes_.begin() + static_cast<std::ptrdiff_t>(slot * width_));
  } else {
    heads_.push_back(head);
    sizes_.insert(sizes_.end(), row.sizes.begin(), row.sizes.end());
  }
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(index),
                static_cast<std::uint32_t>(slot));
  return true;
}

bool ObservationSet::merge(const ObservationSet& other) {
  if (this == &other) {
    return false;
  }
  bool changed = false;
  for (std::size_t i = 0; i < other.size(); ++i) {
    changed |= insert(other[i]);
  }
  if (other.dropped_) {
    changed |= widen(*other.dropped_);
  }
  return changed;
}

bool ObservationSet::widen(const Dropped& dropped) {
  if (!dropped_) {
    dropped_ = dropped;
    return true;
  }
  bool changed = false;
  for (std::size_t axis = 0; axis < width_; ++axis) {
    changed |=
        widen_range(dropped_->min[axis], dropped_->max[axis], dropped.min[axis], dropped.max[axis]);
  }
  if (dropped.max_batch > 0) {
    if (dropped_->max_batch == 0) {
      dropped_->min_batch = dropped.min_batch;
    }
    changed |=
        widen_range(dropped_->min_batch, dropped_->max_batch, dropped.min_batch, dropped.max_batch);
  }
  return changed;
}

bool operator==(const ObservationSet& a, const ObservationSet& b) noexcept {
  if (a.width_ != b.width_ || a.size() != b.size() || a.dropped_ != b.dropped_) {
    return false;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const ObservationSet::Row x = a[i];
    const ObservationSet::Row y = b[i];
    if (x.batch_size != y.batch_size || x.label != y.label ||
        !std::equal(x.sizes.begin(), x.sizes.end(), y.sizes.begin())) {
      return false;
    }
  }
  return true;
}

}  // namespace graphtune
