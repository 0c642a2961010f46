#include <numeric>

#include <gtest/gtest.h>

#include "graphtune/error.h"
#include "graphtune/tensor.h"

namespace graphtune {
namespace {

Tensor counting(const Dims& sizes) {
  Tensor tensor = Tensor::empty(DType::Int32, sizes);
  std::iota(tensor.data_as<std::int32_t>(), tensor.data_as<std::int32_t>() + tensor.element_count(),
            0);
  return tensor;
}

/// A view of `base` with other sizes and strides.
Tensor strided(const Tensor& base, const Dims& sizes, const Dims& strides,
               std::ptrdiff_t offset = 0) {
  return {base.data_as<std::int32_t>() + offset, DType::Int32, sizes, strides, base.owner()};
}

std::vector<std::int32_t> values(const Tensor& tensor) {
  const auto* data = tensor.data_as<std::int32_t>();
  return {data, data + tensor.element_count()};
}

TEST(Dims, HoldsFewAndMany) {
  const Dims few{1, 2, 3};
  std::vector<std::int64_t> numbers(40);
  std::iota(numbers.begin(), numbers.end(), 0);
  Dims many{std::span<const std::int64_t>(numbers)};
  EXPECT_EQ(few.size(), 3U);
  EXPECT_EQ(few[2], 3);
  EXPECT_EQ(many.size(), 40U);
  EXPECT_EQ(many[39], 39);
  EXPECT_EQ(Dims(many), many);
  EXPECT_FALSE(few == many);
  const Dims moved = std::move(many);
  EXPECT_EQ(moved[39], 39);
  EXPECT_EQ(many.size(), 0U);  // NOLINT: what the header promises of a moved-from one
  many = few;
  EXPECT_EQ(many, few);
}

TEST(Tensor, EmptyIsContiguousAndAligned) {
  const Tensor tensor = Tensor::empty(DType::Float32, {2, 3, 4});
  EXPECT_TRUE(tensor.defined());
  EXPECT_EQ(tensor.strides(), (Dims{12, 4, 1}));
  EXPECT_EQ(tensor.element_count(), 24);
  EXPECT_EQ(tensor.byte_size(), 96U);
  EXPECT_TRUE(tensor.view().is_contiguous());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
}

TEST(Tensor, ScalarsAndEmptyOnes) {
  const Tensor scalar = Tensor::zeros(DType::Int64, {});
  EXPECT_EQ(scalar.element_count(), 1);
  EXPECT_EQ(*scalar.data_as<std::int64_t>(), 0);
  const Tensor none = Tensor::empty(DType::Float32, {3, 0, 5});
  EXPECT_EQ(none.element_count(), 0);
  EXPECT_NE(none.data(), nullptr);
  EXPECT_TRUE(none.view().is_contiguous());
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(Tensor().byte_size(), 0U);
}

TEST(Tensor, RefusesSizesThatCannotBe) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_THROW((void)Tensor::empty(DType::Float32, {2, -1}), ValueError);
  EXPECT_THROW((void)Tensor::empty(DType::Float32, {kHuge, kHuge}), ValueError);
  EXPECT_THROW((void)Tensor::empty(DType::Float32, {kHuge, kHuge, 0}), ValueError);
  EXPECT_THROW((void)Tensor::empty(DType::Float64, {kHuge, 1 << 20}), ValueError);
  EXPECT_THROW((void)Tensor::empty(DType::QUInt4x2, {2}), ValueError);
  EXPECT_THROW((void)Tensor::empty(static_cast<DType>(99), {2}), ValueError);
  EXPECT_THROW(Tensor(nullptr, DType::Float32, {2, 3}, {1}, nullptr), ValueError);
  EXPECT_THROW(Tensor(nullptr, DType::Float32, {-2}, {1}, nullptr), ValueError);
  EXPECT_THROW(Tensor(nullptr, DType::Float32, {kHuge, kHuge}, {0, 0}, nullptr), ValueError);
}

TEST(Tensor, FromCopiesAndCounts) {
  const std::vector<float> data{1, 2, 3, 4};
  const Tensor tensor = Tensor::from<float>(data, {2, 2});
  EXPECT_EQ(tensor.dtype(), DType::Float32);
  EXPECT_EQ(tensor.data_as<float>()[3], 4);
  EXPECT_EQ(tensor.data_as<const float>()[0], 1);
  EXPECT_THROW((void)Tensor::from<float>(data, {3}), ValueError);
  EXPECT_THROW((void)Tensor::from<float>(data, {-2, -2}), ValueError);
  EXPECT_THROW((void)tensor.data_as<double>(), TypeError);
}

TEST(Tensor, ContiguityIgnoresStridesOfSizeOne) {
  const Tensor base = counting({12});
  EXPECT_TRUE(strided(base, {1, 12, 1}, {77, 1, 5}).view().is_contiguous());
  EXPECT_FALSE(strided(base, {3, 4}, {1, 3}).view().is_contiguous());
  EXPECT_FALSE(strided(base, {12}, {0}).view().is_contiguous());
  TensorView sparse = base.view();
  sparse.layout = Layout::Sparse;
  EXPECT_FALSE(sparse.is_contiguous());
}

TEST(Tensor, ContiguousCopiesOnlyWhatIsStrided) {
  const Tensor base = counting({3, 4});
  EXPECT_EQ(base.contiguous().data(), base.data());
  EXPECT_EQ(values(strided(base, {4, 3}, {1, 4}).contiguous()),  // transposed
            (std::vector<std::int32_t>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(values(strided(base, {3, 2}, {4, 1}, 1).contiguous()),  // columns 1 and 2
            (std::vector<std::int32_t>{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(values(strided(base, {2, 4}, {0, 1}).contiguous()),  // expanded
            (std::vector<std::int32_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(values(strided(base, {3}, {-4}, 8).contiguous()), (std::vector<std::int32_t>{8, 4, 0}));
  EXPECT_EQ(strided(base, {2, 4}, {0, 1}).contiguous().strides(), (Dims{4, 1}));
}

TEST(Tensor, ContiguousRefusesOtherDevices) {
  std::int32_t data[4] = {};
  const Tensor tensor(data, DType::Int32, {2}, {2}, nullptr, DeviceType::Cuda, 0);
  EXPECT_THROW((void)tensor.contiguous(), ValueError);
}

TEST(Tensor, OwnerKeepsTheDataAlive) {
  auto owner = std::make_shared<std::vector<std::int32_t>>(4, 7);
  const std::weak_ptr<void> watch = owner;
  std::int32_t* data = owner->data();
  Tensor tensor(data, DType::Int32, {4}, {1}, std::move(owner));
  const Tensor copy = tensor;
  tensor = Tensor();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(copy.data_as<std::int32_t>()[3], 7);
}

}  // namespace
}  // namespace graphtune
