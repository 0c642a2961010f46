#include "graphtune/index_scan.h"

#include <algorithm>
#include <limits>

namespace graphtune {
namespace {

/// Int8 is a char in C++, but no letter here.
template <typename T>
constexpr std::int64_t number(T value) {
  return value;
}

template <typename T>
class Scan {
 public:
  Scan(const TensorView& tensor, T low, T high) : tensor_(tensor), low_(low), high_(high) {}

  bool is_clean() const {
    const auto* data = static_cast<const T*>(tensor_.data);
    if (tensor_.is_contiguous()) {
      return is_row_clean(data, tensor_.element_count(), 1);
    }
    return is_axis_clean(data, 0);
  }

  IndexViolation find() const {
    IndexViolation violation;
    violation.position.resize(static_cast<std::size_t>(tensor_.rank));
    find_in_axis(static_cast<const T*>(tensor_.data), 0, violation);
    return violation;
  }

 private:
  bool is_good(T value) const { return value >= low_ && value <= high_; }

  // No early exit within a block: that loop the compiler turns into vector code.
  bool is_row_clean(const T* data, std::int64_t count, std::int64_t stride) const {
    constexpr std::int64_t kBlock = 1024;
    for (std::int64_t start = 0; start < count; start += kBlock) {
      const std::int64_t end = std::min(count, start + kBlock);
      bool bad = false;
      if (stride == 1) {
        for (std::int64_t i = start; i < end; ++i) {
          bad |= (data[i] < low_) | (data[i] > high_);
        }
      } else {
        for (std::int64_t i = start; i < end; ++i) {
          bad |= !is_good(data[i * stride]);
        }
      }
      if (bad) {
        return false;
      }
    }
    return true;
  }

  bool is_axis_clean(const T* data, std::int32_t axis) const {
    if (axis == tensor_.rank) {
      return is_good(*data);
    }
    const std::int64_t stride = tensor_.strides[axis];
    // An expanded axis shows the same values again and again.
    const std::int64_t count =
        stride == 0 ? std::min<std::int64_t>(tensor_.sizes[axis], 1) : tensor_.sizes[axis];
    if (axis + 1 == tensor_.rank) {
      return is_row_clean(data, count, stride);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (!is_axis_clean(data + i * stride, axis + 1)) {
        return false;
      }
    }
    return true;
  }

  bool find_in_axis(const T* data, std::int32_t axis, IndexViolation& violation) const {
    if (axis == tensor_.rank) {
      violation.value = number(*data);
      return !is_good(*data);
    }
    for (std::int64_t i = 0; i < tensor_.sizes[axis]; ++i) {
      violation.position[static_cast<std::size_t>(axis)] = i;
      if (find_in_axis(data + i * tensor_.strides[axis], axis + 1, violation)) {
        return true;
      }
    }
    return false;
  }

  const TensorView& tensor_;
  T low_;
  T high_;
};

template <typename T>
std::optional<IndexViolation> find_violation(const TensorView& tensor, std::int64_t low,
                                             std::int64_t high) {
  constexpr std::int64_t kMin = number(std::numeric_limits<T>::min());
  constexpr std::int64_t kMax = number(std::numeric_limits<T>::max());
  if (low <= kMin && high >= kMax) {
    return std::nullopt;
  }
  // A range beyond the type's is cut to it; one that misses it leaves low > high, which no value
  // meets.
  const bool none = low > kMax || high < kMin;
  const T type_low = none ? T{1} : static_cast<T>(std::max(low, kMin));
  const T type_high = none ? T{0} : static_cast<T>(std::min(high, kMax));
  const Scan<T> scan(tensor, type_low, type_high);
  if (scan.is_clean()) {
    return std::nullopt;
  }
  return scan.find();
}

}  // namespace

bool is_index_dtype(DType dtype) noexcept {
  return dtype == DType::UInt8 || dtype == DType::Int8 || dtype == DType::Int16 ||
         dtype == DType::Int32 || dtype == DType::Int64;
}

std::optional<IndexViolation> find_index_violation(const TensorView& tensor, std::int64_t low,
                                                   std::int64_t high) {
  if (tensor.element_count() == 0) {
    return std::nullopt;
  }
  switch (tensor.dtype) {
    case DType::UInt8:
      return find_violation<std::uint8_t>(tensor, low, high);
    case DType::Int8:
      return find_violation<std::int8_t>(tensor, low, high);
    case DType::Int16:
      return find_violation<std::int16_t>(tensor, low, high);
    case DType::Int32:
      return find_violation<std::int32_t>(tensor, low, high);
    default:
      return find_violation<std::int64_t>(tensor, low, high);
  }
}

}  // namespace graphtune
