#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphtune/error.h"
#include "graphtune/tune/compare.h"

namespace graphtune {
namespace {

using ::testing::HasSubstr;

Tensor floats(const std::vector<float>& values, const Dims& sizes) {
  return Tensor::from(std::span<const float>(values), sizes);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
const Tolerance kFloat = default_tolerance(DType::Float32);

TEST(Compare, EqualValuesPass) {
  const Tensor a = floats({1, -2, 0, kNan, kInf, -kInf}, {2, 3});
  const Comparison result = compare(a, a, kFloat, "outputs");
  EXPECT_TRUE(result.ok()) << result.problem;
  EXPECT_EQ(result.max_absolute, 0);
  EXPECT_EQ(result.element_count, 6);
}

TEST(Compare, TwoPercentOffIsRefusedAndTheWorstElementNamed) {
  std::vector<float> expected(12);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<float>(i + 1);
  }
  std::vector<float> actual = expected;
  for (float& value : actual) {
    value *= 1.02F;
  }
  const Comparison result =
      compare(floats(actual, {3, 4}), floats(expected, {3, 4}), kFloat, "outputs_0");
  EXPECT_EQ(result.outside, 12);
  EXPECT_NEAR(result.max_relative, 0.02, 1e-6);
  EXPECT_THAT(result.problem, HasSubstr("outputs_0: 12 of 12"));
  EXPECT_THAT(result.problem, HasSubstr("worst at [2, 3]"));
}

TEST(Compare, OneWrongElementAmongManyIsFound) {
  std::vector<float> expected(1000, 0.5F);
  std::vector<float> actual = expected;
  actual[777] = 0.51F;
  const Comparison result =
      compare(floats(actual, {10, 100}), floats(expected, {10, 100}), kFloat, "outputs");
  EXPECT_EQ(result.outside, 1);
  EXPECT_THAT(result.problem, HasSubstr("[7, 77]"));
}

TEST(Compare, NanAndInfinityMustBeWhereEagerHasThem) {
  for (const float bad : {kNan, kInf, -kInf}) {
    EXPECT_FALSE(compare(floats({bad}, {1}), floats({1}, {1}), kFloat, "o").ok());
    EXPECT_FALSE(compare(floats({1}, {1}), floats({bad}, {1}), kFloat, "o").ok());
  }
  EXPECT_FALSE(compare(floats({kInf}, {1}), floats({-kInf}, {1}), kFloat, "o").ok());
}

TEST(Compare, RoundingOfALargeSumIsAllowedInSmallElements) {
  EXPECT_TRUE(compare(floats({1000, 0.001F}, {2}), floats({1000, 0.0015F}, {2}), kFloat, "o").ok());
  EXPECT_FALSE(compare(floats({1, 0.001F}, {2}), floats({1, 0.0015F}, {2}), kFloat, "o").ok());
}

TEST(Compare, DtypeAndShapeMustAgree) {
  EXPECT_THAT(compare(Tensor::zeros(DType::Float64, {2}), floats({0, 0}, {2}), kFloat, "o").problem,
              HasSubstr("dtype float64, eager float32"));
  EXPECT_THAT(compare(floats({0, 0}, {1, 2}), floats({0, 0}, {2}), kFloat, "o").problem,
              HasSubstr("shape [1, 2]"));
}

TEST(Compare, IntegersAreExactBeyondDoublePrecision) {
  const std::vector<std::int64_t> a{(std::int64_t{1} << 53) + 1};
  const std::vector<std::int64_t> b{std::int64_t{1} << 53};
  const auto tensor = [](const std::vector<std::int64_t>& v) {
    return Tensor::from(std::span<const std::int64_t>(v), {1});
  };
  EXPECT_FALSE(compare(tensor(a), tensor(b), {}, "o").ok());
  EXPECT_TRUE(compare(tensor(a), tensor(a), {}, "o").ok());
}

TEST(Compare, HalfPrecision) {
  const auto bits = [](DType dtype, std::vector<std::uint16_t> values) {
    Tensor tensor = Tensor::empty(dtype, {static_cast<std::int64_t>(values.size())});
    std::memcpy(tensor.data(), values.data(), values.size() * 2);
    return tensor;
  };
  // 1.0, the smallest subnormal, infinity
  const Tensor half = bits(DType::Float16, {0x3c00, 0x0001, 0x7c00});
  EXPECT_TRUE(compare(half, half, default_tolerance(DType::Float16), "o").ok());
  EXPECT_FALSE(compare(bits(DType::Float16, {0x3d00, 0x0001, 0x7c00}), half,
                       default_tolerance(DType::Float16), "o")
                   .ok());
  const Tensor brain = bits(DType::BFloat16, {0x3f80});
  const Comparison off =
      compare(bits(DType::BFloat16, {0x4000}), brain, default_tolerance(DType::BFloat16), "o");
  EXPECT_EQ(off.max_absolute, 1.0);
  EXPECT_FALSE(off.ok());
}

TEST(Compare, StridedTensorsAreReadInTheirOrder) {
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  auto owner = std::make_shared<std::vector<float>>(values);
  const Tensor transposed(owner->data(), DType::Float32, {3, 2}, {1, 3}, owner);
  EXPECT_TRUE(compare(transposed, floats({1, 4, 2, 5, 3, 6}, {3, 2}), kFloat, "o").ok());
}

TEST(Compare, EmptyAndScalarTensors) {
  EXPECT_TRUE(compare(floats({}, {0, 3}), floats({}, {0, 3}), kFloat, "o").ok());
  EXPECT_THAT(compare(floats({2}, {}), floats({1}, {}), kFloat, "o").problem,
              HasSubstr("worst at []"));
}

TEST(Compare, TypesThatCannotBeComparedAreRefused) {
  const Tensor quantised = Tensor::empty(DType::QInt8, {1});
  EXPECT_THROW((void)compare(quantised, quantised, {}, "o"), ValueError);
}

}  // namespace
}  // namespace graphtune
