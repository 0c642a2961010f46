#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calls.h"
#include "graphtune/error.h"
#include "graphtune/metadata_json.h"

namespace graphtune {
namespace {

using test::Call;
using test::ids;
using test::message_of;
using test::Result;
using test::zeros;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Written as text and read again, as a bundle does.
Json through_text(const Json& json) { return parse_json(json.dump(), "test"); }

ShapeLearner read_learner(const Json& json) { return shape_learner_from_json(JsonView(json)); }

SampleMetadata sample() {
  const auto call = [](std::int64_t batch, std::int64_t length) {
    return Arguments{{ids({batch, length}), "text"},
                     {{"z", Value::dict({{std::string("k"), zeros({2 * batch, 3})}})},
                      {"a", Value::object("my.Type", {{Step::attribute("x"), zeros({})}})}}};
  };
  const auto metadata = [&](std::int64_t batch, std::int64_t length) {
    const Arguments arguments = call(batch, length);
    return SampleMetadata(Call(arguments.positional, arguments.named).tree, true, batch);
  };
  SampleMetadata learned = metadata(1, 5);
  learned.update_shapes_seen(metadata(2, 9));
  learned.update_shapes_seen(metadata(4, 7));
  return learned;
}

TEST(MetadataJson, LearnersReadBackEqual) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const std::size_t axis_count = random() % 4;
    ShapeLearner learner(axis_count);
    if (random() % 2 == 0) {
      learner = ShapeLearner(std::vector<std::uint32_t>{
          0, static_cast<std::uint32_t>(axis_count / 2), static_cast<std::uint32_t>(axis_count)});
    }
    for (std::uint32_t i = random() % 6; i > 0; --i) {
      Observation observation;
      observation.batch_size = random() % 4;
      observation.label = static_cast<BatchLabel>(random() % 3);
      for (std::size_t axis = 0; axis < axis_count; ++axis) {
        observation.sizes.push_back(random() % 5);
      }
      learner.observe(observation);
    }
    const Json json = to_json(learner);
    const ShapeLearner copy = read_learner(through_text(json));
    ASSERT_EQ(copy, learner);
    ASSERT_EQ(copy.axes(), learner.axes());
    ASSERT_EQ(copy.symbols(), learner.symbols());
    ASSERT_EQ(to_json(copy), json);
  }
}

TEST(MetadataJson, DoesNotDependOnTheOrderOfObservations) {
  ShapeLearner a(1);
  ShapeLearner b(1);
  for (std::int64_t i = 0; i < 50; ++i) {
    a.observe({i % 5, {i}});
    b.observe({(49 - i) % 5, {49 - i}});
  }
  EXPECT_EQ(to_json(a).dump(), to_json(b).dump());
}

TEST(MetadataJson, ObservationsBeyondTheLimitReadBack) {
  ShapeLearner learner(2);
  for (std::int64_t i = 0; i < 5000; ++i) {
    learner.observe({1 + i % 3, {1 + i % 3, i}});
  }
  const ShapeLearner copy = read_learner(through_text(to_json(learner)));
  EXPECT_EQ(copy, learner);
  EXPECT_EQ(copy.axes()[1].max, 4999);
}

TEST(MetadataJson, LearnerAsText) {
  ShapeLearner learner(2);
  learner.observe({2, {2, 5}});
  learner.observe({4, {3, 5}, BatchLabel::Certain});
  EXPECT_EQ(to_json(learner).dump(),
            R"({"axes":2,"certain":[1],"observations":[[2,2,5],[4,3,5]]})");
}

TEST(MetadataJson, TensorSpecsReadBackEqual) {
  TensorSpec spec("kwargs_x.data", {1, 5}, DType::BFloat16, 1, DeviceType::Cuda, Layout::Sparse);
  spec.update_shapes_seen(
      TensorSpec("other", {2, 5}, DType::BFloat16, 2, DeviceType::Cuda, Layout::Sparse));
  const Json json = through_text(to_json(spec));
  EXPECT_EQ(json["dtype"], "bfloat16");
  EXPECT_EQ(tensor_spec_from_json(JsonView(json)), spec);
  EXPECT_EQ(tensor_spec_from_json(JsonView(json)).describe(), spec.describe());
  const TensorSpec odd("kwargs_\xFF", {1}, DType::Float32);
  const Json odd_json = through_text(to_json(odd));
  EXPECT_EQ(tensor_spec_from_json(JsonView(odd_json)), odd);
}

TEST(MetadataJson, MetadataReadsBackEqual) {
  const SampleMetadata metadata = sample();
  const Json json = through_text(to_json(metadata));
  const SampleMetadata copy = sample_metadata_from_json(JsonView(json));
  EXPECT_EQ(copy, metadata);
  EXPECT_EQ(copy.key().bytes(), metadata.key().bytes());
  EXPECT_EQ(copy.strict(), metadata.strict());
  EXPECT_EQ(copy.learner(), metadata.learner());
  EXPECT_EQ(copy.axis_offsets(), metadata.axis_offsets());
  EXPECT_EQ(copy.describe(InfoLevel::Full), metadata.describe(InfoLevel::Full));
  EXPECT_EQ(to_json(copy), json);
  // It goes on learning.
  SampleMetadata more = copy;
  more.update_shapes_seen(metadata);
  EXPECT_EQ(more.learner(), metadata.learner());
  const SampleMetadata output(Result(zeros({2, 3})).tree, false, 2);
  const Json output_json = through_text(to_json(output));
  EXPECT_EQ(sample_metadata_from_json(JsonView(output_json)), output);
}

TEST(MetadataJson, DamagedLearnersAreRefusedWithThePath) {
  const Json good = {{"axes", 2},
                     {"tensors", {0, 1, 2}},
                     {"observations", {{1, 2, 3}, {2, 4, 3}}},
                     {"certain", {0}},
                     {"dropped", {{"min", {1, 1}}, {"max", {9, 9}}, {"batch", {1, 8}}}}};
  EXPECT_NO_THROW((void)read_learner(good));
  struct Damage {
    const char* pointer;
    Json value;
    const char* message;
  };
  const Damage damages[] = {
      {"/axes", -1, "/axes"},
      {"/axes", 3, "/observations/0"},
      {"/axes", "2", "/axes"},
      {"/observations", Json::object(), "/observations"},
      {"/observations/1", 5, "/observations/1"},
      {"/observations/1", {1, 2}, "/observations/1"},
      {"/observations/1/0", -1, "/observations/1/0"},
      {"/observations/1/2", 1.5, "/observations/1/2"},
      {"/observations/1/2", 18446744073709551615U, "/observations/1/2"},
      {"/certain/0", 2, "/certain/0"},
      {"/inferred", {0}, "/inferred/0"},
      {"/tensors", {0, 2, 1, 2}, "/tensors"},
      {"/tensors", {0, 3}, "/tensors"},
      {"/tensors", Json::array(), "/tensors"},
      {"/dropped/min", {1}, "/dropped/min"},
      {"/dropped/min/0", 10, "/dropped"},
      {"/dropped/batch", {0, 8}, "/dropped/batch/0"},
      {"/dropped/batch", {9, 8}, "/dropped/batch"},
      {"/dropped/more", 1, "/dropped"},
      {"/surplus", 1, "surplus"},
  };
  for (const Damage& damage : damages) {
    Json bad = good;
    bad[Json::json_pointer(damage.pointer)] = damage.value;
    EXPECT_THAT(message_of<ValueError>([&] { (void)read_learner(bad); }), HasSubstr(damage.message))
        << damage.pointer;
  }
  for (const char* key : {"axes", "observations"}) {
    Json bad = good;
    bad.erase(key);
    EXPECT_THROW((void)read_learner(bad), ValueError) << key;
  }
  // Nothing is allocated for axes that are only claimed.
  EXPECT_THROW((void)read_learner({{"axes", 4'000'000'000}, {"observations", Json::array()}}),
               ValueError);
}

TEST(MetadataJson, DamagedMetadataIsRefusedWithThePath) {
  const Json good = to_json(sample());
  const auto message = [&](const char* pointer, const Json& value) {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = value;
    return message_of<ValueError>([&] { (void)sample_metadata_from_json(JsonView(bad)); });
  };
  EXPECT_THAT(message("/strict", 1), StartsWith("/strict"));
  EXPECT_THAT(message("/surplus", 1), HasSubstr("surplus"));
  EXPECT_THAT(message("/structure/nodes/0", nullptr), HasSubstr("/structure/nodes/0"));
  EXPECT_THAT(message("/learned", to_json(ShapeLearner(3))), StartsWith("/learned"));
  EXPECT_THROW((void)sample_metadata_from_json(JsonView(Json(5))), ValueError);
  EXPECT_THROW((void)tensor_spec_from_json(JsonView(Json::object())), ValueError);
}

}  // namespace
}  // namespace graphtune
