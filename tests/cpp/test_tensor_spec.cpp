#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/error.h"
#include "graphtune/tensor_spec.h"

namespace graphtune {
namespace {

using test::message_of;
using ::testing::HasSubstr;

TensorSpec spec(std::vector<std::int64_t> shape,
                std::optional<std::int64_t> batch_size = std::nullopt,
                DType dtype = DType::Float32) {
  return {"args_0", std::move(shape), dtype, batch_size};
}

TEST(TensorSpec, OneSampleHasItsSizes) {
  const TensorSpec one = spec({2, 3, 4}, 2, DType::Int64);
  EXPECT_EQ(one.name(), "args_0");
  EXPECT_EQ(one.rank(), 3U);
  EXPECT_EQ(shape_to_string(one.shape()), "[2, 3, 4]");
  EXPECT_EQ(one.min_shape(), (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(one.max_shape(), one.min_shape());
  EXPECT_EQ(one.dtype(), DType::Int64);
  EXPECT_EQ(one.device(), DeviceType::Cpu);
  EXPECT_EQ(one.layout(), Layout::Strided);
  EXPECT_FALSE(one.has_batch_axis());
  EXPECT_FALSE(one.has_dynamic_axis());
  EXPECT_TRUE(one.get_batch_axis_multipliers().empty());
}

TEST(TensorSpec, LearnsBatchAndDynamicAxes) {
  TensorSpec learned = spec({2, 5, 8}, 1);
  learned.update_shapes_seen(spec({4, 9, 8}, 2));
  EXPECT_EQ(shape_to_string(learned.shape()), "['batch0', 'dim1', 8]");
  EXPECT_EQ(learned.min_shape(), (std::vector<std::int64_t>{2, 5, 8}));
  EXPECT_EQ(learned.max_shape(), (std::vector<std::int64_t>{4, 9, 8}));
  EXPECT_TRUE(learned.has_batch_axis());
  EXPECT_TRUE(learned.has_dynamic_axis());
  EXPECT_EQ(learned.get_batch_axis_multipliers(), (std::map<std::size_t, std::int64_t>{{0, 2}}));
  EXPECT_EQ(learned.describe(),
            "args_0: torch.float32 ['batch0', 'dim1', 8], min [2, 5, 8], max [4, 9, 8]");
}

TEST(TensorSpec, ScalarHasNoAxes) {
  const TensorSpec scalar = spec({});
  EXPECT_EQ(scalar.rank(), 0U);
  EXPECT_EQ(scalar.describe(), "args_0: torch.float32 [], min [], max []");
}

TEST(TensorSpec, OnlyTheSameTensorMatches) {
  TensorSpec known = spec({2, 3});
  const std::pair<TensorSpec, const char*> others[] = {
      {spec({2}), "rank 2, the other one has 1"},
      {spec({2, 3}, std::nullopt, DType::Float16), "dtype float32, the other one has float16"},
      {TensorSpec("args_0", {2, 3}, DType::Float32, std::nullopt, DeviceType::Cuda), "device cpu"},
      {TensorSpec("args_0", {2, 3}, DType::Float32, std::nullopt, DeviceType::Cpu, Layout::Sparse),
       "layout strided"},
  };
  for (const auto& [other, message] : others) {
    EXPECT_FALSE(known.matches(other));
    EXPECT_THAT(message_of<ValueError>([&, &given = other] { known.update_shapes_seen(given); }),
                HasSubstr(message));
  }
  EXPECT_EQ(known, spec({2, 3}));
  EXPECT_TRUE(known.matches(TensorSpec("other_name", {7, 7}, DType::Float32)));
}

TEST(TensorSpec, BadArgumentsAreRefused) {
  EXPECT_THROW(spec({-1}), ValueError);
  EXPECT_THROW(spec({1}, 0), ValueError);
  EXPECT_THROW(spec({1}, -3), ValueError);
  EXPECT_THAT(message_of<ValueError>([] { spec({1}, 0); }), HasSubstr("batch_size"));
}

TEST(TensorSpec, CopiesAreIndependentAndEqualityComparesWhatWasLearned) {
  const TensorSpec a = spec({1}, 1);
  TensorSpec b = a;
  EXPECT_EQ(a, b);
  b.update_shapes_seen(spec({2}, 2));
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(a.has_batch_axis());
}

}  // namespace
}  // namespace graphtune
