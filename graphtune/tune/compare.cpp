#include "graphtune/tune/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

// IEEE 754 binary16.
double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const double mantissa = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0x1f) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) {
    return sign * std::ldexp(mantissa, -24);
  }
  return sign * std::ldexp(mantissa + 1024, exponent - 25);
}

double bfloat16_to_double(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

template <typename Sizes>
std::string list(const Sizes& sizes) {
  return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ", "));
}

struct Worst {
  double excess = -1;
  std::int64_t index = 0;
  double actual = 0;
  double expected = 0;
};

// Collects one pair of values after another; NaN and infinities must be the same on both sides.
class Accumulator {
 public:
  Accumulator(const Tolerance& tolerance, double scale) : tolerance_(tolerance), scale_(scale) {}

  void add(std::int64_t index, double actual, double expected) {
    if (!std::isfinite(expected) || !std::isfinite(actual)) {
      const bool same = (std::isnan(expected) && std::isnan(actual)) || expected == actual;
      if (!same) {
        refuse(index, actual, expected, std::numeric_limits<double>::infinity());
      }
      return;
    }
    const double difference = std::abs(actual - expected);
    result_.max_absolute = std::max(result_.max_absolute, difference);
    if (expected != 0) {
      result_.max_relative = std::max(result_.max_relative, difference / std::abs(expected));
    }
    const double allowed = tolerance_.absolute * scale_ + tolerance_.relative * std::abs(expected);
    if (difference > allowed) {
      refuse(index, actual, expected, difference - allowed);
    }
  }

  // Integers are compared as such: a double can't hold all of them.
  void add_exact(std::int64_t index, bool equal, double actual, double expected) {
    if (!equal) {
      result_.max_absolute =
          std::max(result_.max_absolute, std::max(1.0, std::abs(actual - expected)));
      refuse(index, actual, expected, std::abs(actual - expected));
    }
  }

  Comparison finish(const std::string& name, const Tensor& expected) {
    result_.element_count = expected.element_count();
    if (result_.outside > 0) {
      std::vector<std::int64_t> position;
      std::int64_t rest = worst_.index;
      for (std::size_t axis = expected.sizes().size(); axis-- > 0;) {
        position.insert(position.begin(), rest % expected.sizes()[axis]);
        rest /= expected.sizes()[axis];
      }
      result_.problem = fmt::format(
          "{}: {} of {} elements differ from eager; worst at {}: {:.9g}, eager {:.9g}", name,
          result_.outside, result_.element_count, list(position), worst_.actual, worst_.expected);
    }
    return result_;
  }

 private:
  void refuse(std::int64_t index, double actual, double expected, double excess) {
    ++result_.outside;
    if (excess > worst_.excess) {
      worst_ = {excess, index, actual, expected};
    }
  }

  Tolerance tolerance_;
  double scale_;
  Comparison result_;
  Worst worst_;
};

template <typename Read>
void compare_floats(const Tolerance& tolerance, std::int64_t count, const Read& read_actual,
                    const Read& read_expected, std::optional<Accumulator>& accumulator) {
  double scale = 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const double magnitude = std::abs(read_expected(i));
    if (std::isfinite(magnitude)) {
      scale = std::max(scale, magnitude);
    }
  }
  accumulator.emplace(tolerance, scale);
  for (std::int64_t i = 0; i < count; ++i) {
    accumulator->add(i, read_actual(i), read_expected(i));
  }
}

template <typename T>
struct ReadNative {
  const T* data;
  double operator()(std::int64_t i) const { return static_cast<double>(data[i]); }
};

struct ReadBits {
  const std::uint16_t* data;
  double (*convert)(std::uint16_t);
  double operator()(std::int64_t i) const { return convert(data[i]); }
};

template <typename T>
void compare_integers(const Tensor& actual, const Tensor& expected,
                      std::optional<Accumulator>& accumulator) {
  accumulator.emplace(Tolerance{}, 1.0);
  const T* a = static_cast<const T*>(actual.data());
  const T* e = static_cast<const T*>(expected.data());
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    accumulator->add_exact(i, a[i] == e[i], static_cast<double>(a[i]), static_cast<double>(e[i]));
  }
}

template <typename T>
void compare_native(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                    std::int64_t count, std::optional<Accumulator>& accumulator) {
  compare_floats(tolerance, count, ReadNative<T>{static_cast<const T*>(actual.data())},
                 ReadNative<T>{static_cast<const T*>(expected.data())}, accumulator);
}

void compare_elements(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                      std::optional<Accumulator>& accumulator) {
  const std::int64_t count = expected.element_count();
  const auto bits = [](const Tensor& tensor, double (*convert)(std::uint16_t)) {
    return ReadBits{static_cast<const std::uint16_t*>(tensor.data()), convert};
  };
  switch (expected.dtype()) {
    case DType::Float64:
      return compare_native<double>(actual, expected, tolerance, count, accumulator);
    case DType::Complex64:  // the parts one by one
      return compare_native<float>(actual, expected, tolerance, 2 * count, accumulator);
    case DType::Complex128:
      return compare_native<double>(actual, expected, tolerance, 2 * count, accumulator);
    case DType::Float32:
      return compare_native<float>(actual, expected, tolerance, count, accumulator);
    case DType::Float16:
      return compare_floats(tolerance, count, bits(actual, half_to_double),
                            bits(expected, half_to_double), accumulator);
    case DType::BFloat16:
      return compare_floats(tolerance, count, bits(actual, bfloat16_to_double),
                            bits(expected, bfloat16_to_double), accumulator);
    case DType::Bool:
    case DType::UInt8:
      return compare_integers<std::uint8_t>(actual, expected, accumulator);
    case DType::Int8:
      return compare_integers<std::int8_t>(actual, expected, accumulator);
    case DType::Int16:
      return compare_integers<std::int16_t>(actual, expected, accumulator);
    case DType::UInt16:
      return compare_integers<std::uint16_t>(actual, expected, accumulator);
    case DType::Int32:
      return compare_integers<std::int32_t>(actual, expected, accumulator);
    case DType::UInt32:
      return compare_integers<std::uint32_t>(actual, expected, accumulator);
    case DType::Int64:
      return compare_integers<std::int64_t>(actual, expected, accumulator);
    case DType::UInt64:
      return compare_integers<std::uint64_t>(actual, expected, accumulator);
    default:
      throw ValueError(fmt::format("values of dtype {} can't be compared; keep this graph eager",
                                   to_string(expected.dtype())));
  }
}

}  // namespace

Tolerance default_tolerance(DType dtype) noexcept {
  switch (dtype) {
    case DType::Float64:
    case DType::Complex128:
      return {1e-7, 1e-9};
    case DType::Float32:
    case DType::Complex64:
      return {1e-4, 1e-5};
    case DType::Float16:
      return {1e-2, 1e-3};
    case DType::BFloat16:
      return {1.6e-2, 1e-2};
    default:
      return {};
  }
}

Comparison compare(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                   const std::string& name) {
  Comparison result;
  if (actual.dtype() != expected.dtype()) {
    result.problem = fmt::format("{}: dtype {}, eager {}", name, to_string(actual.dtype()),
                                 to_string(expected.dtype()));
    return result;
  }
  if (!(actual.sizes() == expected.sizes())) {
    result.problem =
        fmt::format("{}: shape {}, eager {}", name, list(actual.sizes()), list(expected.sizes()));
    return result;
  }
  const Tensor dense_actual = actual.contiguous();
  const Tensor dense_expected = expected.contiguous();
  std::optional<Accumulator> accumulator;
  compare_elements(dense_actual, dense_expected, tolerance, accumulator);
  const bool is_complex =
      expected.dtype() == DType::Complex64 || expected.dtype() == DType::Complex128;
  if (is_complex && accumulator) {
    // positions are of parts; name them with a last axis of two
    std::vector<std::int64_t> sizes(expected.sizes().begin(), expected.sizes().end());
    sizes.push_back(2);
    const Tensor parts(dense_expected.data(), DType::Float32,
                       Dims(std::span<const std::int64_t>(sizes)), contiguous_strides(sizes),
                       nullptr);
    return accumulator->finish(name, parts);
  }
  return accumulator->finish(name, dense_expected);
}

}  // namespace graphtune
