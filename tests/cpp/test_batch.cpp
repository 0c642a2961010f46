#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/batch.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

using test::Call;
using test::message_of;
using test::Named;
using test::zeros;
using ::testing::HasSubstr;
using Values = std::vector<float>;

/// 0, 1, 2 … in row-major order.
Tensor counted(const Dims& sizes) {
  Tensor tensor = Tensor::empty(DType::Float32, sizes);
  std::iota(tensor.data_as<float>(), tensor.data_as<float>() + tensor.element_count(), 0.0F);
  return tensor;
}

Values values(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  return {dense.data_as<float>(), dense.data_as<float>() + dense.element_count()};
}

/// The same elements with other strides: `order` lists the dimensions from the outermost in.
Tensor permuted(const Tensor& tensor, const std::vector<std::size_t>& order) {
  Dims strides = tensor.sizes();
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= tensor.sizes()[order[i]];
  }
  const Tensor memory = Tensor::empty(DType::Float32, tensor.sizes());
  Tensor result(memory.data(), DType::Float32, tensor.sizes(), strides, memory.owner());
  std::vector<std::int64_t> index(tensor.sizes().size(), 0);
  for (std::int64_t element = 0; element < tensor.element_count(); ++element) {
    std::int64_t rest = element;
    std::int64_t offset = 0;
    for (std::size_t i = index.size(); i-- > 0;) {
      offset += rest % tensor.sizes()[i] * strides[i];
      rest /= tensor.sizes()[i];
    }
    result.data_as<float>()[offset] = tensor.data_as<float>()[element];
  }
  return result;
}

SampleMetadata learned(const Arguments& first, std::int64_t first_batch, const Arguments& second,
                       std::int64_t second_batch) {
  SampleMetadata metadata(Call(first.positional, first.named).tree, true, first_batch);
  metadata.update_shapes_seen(
      SampleMetadata(Call(second.positional, second.named).tree, true, second_batch));
  return metadata;
}

/// Metadata of one tensor with batch axis 0.
SampleMetadata rows_of(std::int64_t multiplier, std::int64_t width = 2) {
  return learned({{zeros({multiplier, width})}, {}}, 1, {{zeros({3 * multiplier, width})}, {}}, 3);
}

TEST(SourceRows, BlocksAreResizedOneByOne) {
  EXPECT_EQ(source_rows({0, 1, 3, 8}), (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(source_rows({0, 1, 3, 2}), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(source_rows({0, 2, 2, 3}), (std::vector<std::int64_t>{0, 1, 0, 2, 3, 2}));
  EXPECT_EQ(source_rows({0, 2, 3, 1}), (std::vector<std::int64_t>{0, 3}));
}

TEST(Resize, GrowsByRepeatingRowsInTurn) {
  const Tensor grown = resize(counted({3, 2}), {{0, 1, 3, 8}});
  EXPECT_EQ(values(grown), (Values{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3}));
}

TEST(Resize, BlocksOfAStackedBatchAreResizedByThemselves) {
  // Rows 0 and 1 are the condition, 2 and 3 the counterpart.
  EXPECT_EQ(values(resize(counted({4, 1}), {{0, 2, 2, 3}})), (Values{0, 1, 0, 2, 3, 2}));
  EXPECT_EQ(values(resize(counted({4, 1}), {{0, 2, 2, 1}})), (Values{0, 2}));
}

TEST(Resize, ShrinkingOneBlockIsAView) {
  const Tensor tensor = counted({4, 3});
  const Tensor view = resize(tensor, {{0, 1, 4, 2}});
  EXPECT_EQ(view.data(), tensor.data());
  EXPECT_EQ(view.owner(), tensor.owner());
  EXPECT_EQ(view.strides(), tensor.strides());
  EXPECT_EQ(values(view), (Values{0, 1, 2, 3, 4, 5}));
}

TEST(Resize, WithoutAnythingToDoTheTensorItselfComesBack) {
  const Tensor tensor = counted({4, 3});
  EXPECT_EQ(resize(tensor, {}).data(), tensor.data());
}

TEST(Resize, SeveralBatchAxes) {
  const Tensor grown = resize(counted({2, 2}), {{0, 1, 2, 3}, {1, 2, 1, 2}});
  EXPECT_EQ(values(grown), (Values{0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1}));
  const Tensor mixed = resize(counted({3, 2}), {{0, 1, 3, 1}, {1, 1, 2, 3}});
  EXPECT_EQ(values(mixed), (Values{0, 1, 0}));
}

TEST(Resize, MemoryFormatIsKept) {
  const Dims sizes{2, 3, 2, 2};
  const Tensor channels_last = permuted(counted(sizes), {0, 2, 3, 1});
  ASSERT_EQ(channels_last.strides(), (Dims{12, 1, 6, 3}));
  const Tensor grown = resize(channels_last, {{0, 1, 2, 5}});
  EXPECT_EQ(grown.sizes(), (Dims{5, 3, 2, 2}));
  EXPECT_EQ(grown.strides(), (Dims{12, 1, 6, 3}));
  EXPECT_EQ(values(grown), values(resize(counted(sizes), {{0, 1, 2, 5}})));
  // One image, whose batch stride alone would say nothing.
  const Tensor one = permuted(counted({1, 3, 2, 2}), {0, 2, 3, 1});
  EXPECT_EQ(resize(one, {{0, 1, 1, 2}}).strides(), (Dims{12, 1, 6, 3}));
  const Tensor shrunk = resize(channels_last, {{0, 1, 2, 1}});
  EXPECT_EQ(shrunk.strides(), channels_last.strides());
}

TEST(Resize, AnyStridesGiveTheSameValues) {
  const Tensor plain = counted({3, 2, 4});
  const std::vector<std::vector<std::size_t>> orders{{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  const std::vector<std::vector<AxisResize>> tasks{
      {{0, 1, 3, 7}}, {{2, 2, 2, 3}}, {{0, 3, 1, 2}, {1, 1, 2, 1}}, {{1, 2, 1, 4}, {2, 1, 4, 6}}};
  for (const auto& order : orders) {
    for (const auto& task : tasks) {
      EXPECT_EQ(values(resize(permuted(plain, order), task)), values(resize(plain, task)));
    }
  }
  // A slice with gaps, and one row that was expanded.
  const Tensor base = counted({4, 6});
  const Tensor slice(base.data_as<float>() + 1, DType::Float32, {2, 3}, {12, 2}, base.owner());
  EXPECT_EQ(values(resize(slice, {{0, 1, 2, 3}})), (Values{1, 3, 5, 13, 15, 17, 1, 3, 5}));
  const Tensor expanded(base.data(), DType::Float32, {2, 3}, {0, 1}, base.owner());
  EXPECT_EQ(values(resize(expanded, {{0, 1, 2, 3}})), (Values{0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

TEST(Resize, EmptyDimensionsAndOtherTypes) {
  EXPECT_EQ(resize(zeros({2, 0}), {{0, 1, 2, 5}}).sizes(), (Dims{5, 0}));
  const std::vector<std::int8_t> bytes{1, 2, 3};
  const Tensor grown = resize(Tensor::from(std::span(bytes), {3}), {{0, 1, 3, 5}});
  EXPECT_EQ(
      std::vector<std::int8_t>(grown.data_as<std::int8_t>(), grown.data_as<std::int8_t>() + 5),
      (std::vector<std::int8_t>{1, 2, 3, 1, 2}));
}

TEST(Resize, WhatDoesNotFitIsRefused) {
  const Tensor tensor = counted({4, 3});
  for (const AxisResize& bad :
       {AxisResize{2, 1, 4, 2}, AxisResize{0, 3, 1, 2}, AxisResize{0, 0, 4, 2},
        AxisResize{0, 1, 3, 2}, AxisResize{0, 1, 4, 0}, AxisResize{0, 4, 1, INT64_MAX}}) {
    EXPECT_THROW((void)resize(tensor, {bad}), ValueError);
  }
  const Tensor elsewhere(nullptr, DType::Float32, {4, 3}, {3, 1}, nullptr, DeviceType::Cuda, 0);
  EXPECT_THROW((void)resize(elsewhere, {{0, 1, 4, 8}}), ValueError);
  EXPECT_EQ(resize(elsewhere, {{0, 1, 4, 2}}).sizes(), (Dims{2, 3}));
}

TEST(MakeBatch, ResizesBatchAxesOnly) {
  const auto arguments = [](std::int64_t batch, std::int64_t length) {
    return Arguments{
        {zeros({batch, length}), "text"},
        {{"stacked", zeros({2 * batch, 3})},
         {"inner", Value::list({zeros({length, batch}), nullptr, Value::tuple({zeros({7})})})}}};
  };
  const SampleMetadata metadata = learned(arguments(1, 5), 1, arguments(2, 9), 2);
  const Arguments given = arguments(3, 6);
  const Arguments result = make_batch(metadata, given, 4);
  EXPECT_EQ(result.positional[0].tensor().sizes(), (Dims{4, 6}));
  EXPECT_EQ(result.positional[1].constant(), Constant::string("text"));
  EXPECT_EQ(result.named[0].first, "stacked");
  EXPECT_EQ(result.named[0].second.tensor().sizes(), (Dims{8, 3}));
  const Value& inner = result.named[1].second;
  EXPECT_EQ(inner.at(0).tensor().sizes(), (Dims{6, 4}));
  EXPECT_TRUE(inner.at(1).is_none());
  EXPECT_EQ(inner.at(2).at(0).tensor().data(), given.named[1].second.at(2).at(0).tensor().data());
  // What was not touched is the very same container.
  EXPECT_EQ(&inner.at(2).container(), &given.named[1].second.at(2).container());
}

TEST(MakeBatch, RightSizeReturnsTheTensorsThemselves) {
  const Arguments given{{counted({3, 2})}, {}};
  const Arguments result = make_batch(rows_of(1), given, 3);
  EXPECT_EQ(result.positional[0].tensor().data(), given.positional[0].tensor().data());
}

TEST(MakeBatch, GrowsAndShrinksWithValues) {
  const Arguments given{{counted({3, 1})}, {}};
  EXPECT_EQ(values(make_batch(rows_of(1, 1), given, 8).positional[0].tensor()),
            (Values{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(values(make_batch(rows_of(1, 1), given, 2).positional[0].tensor()), (Values{0, 1}));
}

TEST(MakeBatch, ContainersKeepTheirTypesAndOrder) {
  const auto arguments = [](std::int64_t batch) {
    return Arguments{
        {},
        {{"z", Value::object("my.Output", {{Step::of_key(Constant::string("y")), zeros({batch, 2})},
                                           {Step::attribute("x"), zeros({batch})}})},
         {"a", Value::dict({{std::string("k2"), zeros({batch})}, {std::string("k1"), 1}})}}};
  };
  const SampleMetadata metadata = learned(arguments(1), 1, arguments(2), 2);
  // Given in another order, with another constant: found by its places.
  Arguments given = arguments(2);
  std::swap(given.named[0], given.named[1]);
  given.named[0].second =
      Value::dict({{std::string("k1"), "other"}, {std::string("k2"), zeros({2})}});
  const Arguments result = make_batch(metadata, given, 5);
  EXPECT_EQ(result.named[0].first, "a");
  EXPECT_EQ(result.named[0].second.container().children[0].first.key, Constant::string("k1"));
  EXPECT_EQ(result.named[0].second["k2"].tensor().sizes(), (Dims{5}));
  EXPECT_EQ(result.named[1].second.container().type, "my.Output");
  EXPECT_EQ(result.named[1].second["y"].tensor().sizes(), (Dims{5, 2}));
  EXPECT_EQ(result.named[1].second["x"].tensor().sizes(), (Dims{5}));
}

TEST(MakeBatch, TensorsAreFoundInCallsOfAnotherStructure) {
  const auto arguments = [](std::int64_t batch, Value extra) {
    return Arguments{{zeros({batch})}, {{"mask", std::move(extra)}}};
  };
  const SampleMetadata metadata = learned(arguments(1, 1), 1, arguments(2, 1), 2);
  const Arguments result = make_batch(metadata, arguments(2, Value::list({1, 2})), 4);
  EXPECT_EQ(result.positional[0].tensor().sizes(), (Dims{4}));
}

TEST(MakeBatch, BadCallsAreRefusedWithTheLocator) {
  const auto two = [](std::int64_t batch) {
    return Arguments{{zeros({2 * batch, 5})}, {{"mask", zeros({batch, 3})}}};
  };
  const SampleMetadata metadata = learned(two(1), 1, two(2), 2);
  const auto message = [&](const Arguments& arguments, std::int64_t batch) {
    return message_of<ValueError>([&] { (void)make_batch(metadata, arguments, batch); });
  };
  EXPECT_THAT(message({{zeros({2, 5})}, {{"mask", zeros({3})}}}, 4),
              HasSubstr("['mask'] must have rank 2, not 1"));
  EXPECT_THAT(message({{zeros({2, 5})}, {}}, 4), HasSubstr("['mask'] is missing"));
  EXPECT_THAT(message({{zeros({2, 5}), zeros({1})}, {{"mask", zeros({1, 3})}}}, 4),
              HasSubstr("[1] is a tensor that no sample had"));
  EXPECT_THAT(message({{zeros({3, 5})}, {{"mask", zeros({1, 3})}}}, 4),
              HasSubstr("axis 0 of [0] has size 3, but must be a multiple of 2"));
  EXPECT_THAT(message({{zeros({2, 5})}, {{"mask", zeros({0, 3})}}}, 4),
              HasSubstr("['mask'] is empty along its batch axis 0"));
  EXPECT_THAT(message(two(1), 0), HasSubstr("batch_size must be at least 1"));
  EXPECT_THAT(message(two(1), -2), HasSubstr("batch_size"));
  EXPECT_THAT(message(two(1), INT64_MAX), HasSubstr("too large"));
}

TEST(MakeBatch, WithoutBatchAxesNothingChanges) {
  const SampleMetadata metadata(Call({zeros({2, 3})}).tree, true);
  const Arguments given{{zeros({2, 3})}, {}};
  EXPECT_EQ(make_batch(metadata, given, 8).positional[0].tensor().data(),
            given.positional[0].tensor().data());
}

TEST(PlanBatch, ListsOnlyWhatChanges) {
  const SampleMetadata metadata = rows_of(2);
  const BatchPlan plan = plan_batch(metadata, Call({zeros({4, 2})}).tree, 3);
  ASSERT_EQ(plan.tensors.size(), 1U);
  ASSERT_EQ(plan.tensors[0].size(), 1U);
  EXPECT_EQ(plan.tensors[0][0].axis, 0U);
  EXPECT_EQ(plan.tensors[0][0].multiplier, 2);
  EXPECT_EQ(plan.tensors[0][0].current, 2);
  EXPECT_EQ(plan.tensors[0][0].target, 3);
  EXPECT_TRUE(plan_batch(metadata, Call({zeros({6, 2})}).tree, 3).tensors[0].empty());
}

}  // namespace
}  // namespace graphtune
