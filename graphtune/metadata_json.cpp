#include "graphtune/metadata_json.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graphtune/digest.h"
#include "graphtune/error.h"
#include "graphtune/json.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

constexpr std::int64_t kMaxSize = std::numeric_limits<std::int64_t>::max();
// Axes that no observation vouches for: what reads a learner allocates for each.
constexpr std::int64_t kMaxBareAxes = 65'536;

std::vector<std::int64_t> integers(const JsonView& json, std::int64_t min, std::int64_t max) {
  std::vector<std::int64_t> values;
  values.reserve(json.size());
  for (const JsonView& item : json.items()) {
    values.push_back(item.integer(min, max));
  }
  return values;
}

std::vector<std::int64_t> sizes_of_axes(const JsonView& json, std::size_t axis_count) {
  std::vector<std::int64_t> sizes = integers(json, 0, kMaxSize);
  if (sizes.size() != axis_count) {
    json.fail(fmt::format("expected {} sizes, found {}", axis_count, sizes.size()));
  }
  return sizes;
}

/// `build()`, with the path before what it throws.
template <typename Function>
auto at_path(const JsonView& json, const Function& build) {
  try {
    return build();
  } catch (const ValueError& error) {
    json.fail(error.what());
  }
}

void read_labels(const JsonView& learner, const char* key, BatchLabel label,
                 std::vector<Observation>& observations) {
  const auto indices = learner.find(key);
  if (!indices) {
    return;
  }
  for (const JsonView& item : indices->items()) {
    const std::int64_t last = static_cast<std::int64_t>(observations.size()) - 1;
    Observation& observation = observations[static_cast<std::size_t>(item.integer(0, last))];
    if (observation.label != BatchLabel::Stated || observation.batch_size == 0) {
      item.fail("this observation has no batch size, or is listed twice");
    }
    observation.label = label;
  }
}

std::vector<Observation> read_observations(const JsonView& json, std::size_t axis_count) {
  std::vector<Observation> observations;
  observations.reserve(json.size());
  for (const JsonView& item : json.items()) {
    std::vector<std::int64_t> values = integers(item, 0, kMaxSize);
    if (values.size() != axis_count + 1) {
      item.fail(fmt::format("expected a batch size and {} sizes, found {} numbers", axis_count,
                            values.size()));
    }
    observations.push_back({values.front(), {values.begin() + 1, values.end()}});
  }
  return observations;
}

ObservationSet::Dropped read_dropped(const JsonView& json, std::size_t axis_count) {
  json.allow_only({"min", "max", "batch"});
  ObservationSet::Dropped dropped;
  dropped.min = sizes_of_axes(json.at("min"), axis_count);
  dropped.max = sizes_of_axes(json.at("max"), axis_count);
  for (std::size_t axis = 0; axis < axis_count; ++axis) {
    if (dropped.min[axis] > dropped.max[axis]) {
      json.fail(fmt::format("the range of axis {} is empty", axis));
    }
  }
  if (const auto batch = json.find("batch")) {
    const std::vector<std::int64_t> range = integers(*batch, 1, kMaxSize);
    if (range.size() != 2 || range[0] > range[1]) {
      batch->fail("expected the smallest and the largest batch size");
    }
    dropped.min_batch = range[0];
    dropped.max_batch = range[1];
  }
  return dropped;
}

Json name_to_json(const std::string& name) {
  return is_utf8(name) ? Json(name) : Json{{"hex", to_hex(name)}};
}

std::string name_from_json(const JsonView& json) {
  if (!json.json().is_object()) {
    return json.string();
  }
  json.allow_only({"hex"});
  const JsonView hex = json.at("hex");
  return at_path(hex, [&] { return from_hex(hex.string()); });
}

}  // namespace

struct ShapeLearnerJson {
  static Json write(const ShapeLearner& learner) {
    Json json{{"axes", learner.axis_count()}};
    Json& rows = json["observations"] = Json::array();
    Json certain = Json::array();
    Json inferred = Json::array();
    for (const Observation& observation : learner.observations()) {
      if (observation.label != BatchLabel::Stated) {
        (observation.label == BatchLabel::Certain ? certain : inferred).push_back(rows.size());
      }
      Json& row = rows.emplace_back(Json::array({observation.batch_size}));
      for (const std::int64_t size : observation.sizes) {
        row.push_back(size);
      }
    }
    if (!certain.empty()) {
      json["certain"] = std::move(certain);
    }
    if (!inferred.empty()) {
      json["inferred"] = std::move(inferred);
    }
    if (const auto& dropped = learner.observations_.dropped()) {
      Json& ranges = json["dropped"] = {{"min", dropped->min}, {"max", dropped->max}};
      if (dropped->max_batch > 0) {
        ranges["batch"] = {dropped->min_batch, dropped->max_batch};
      }
    }
    return json;
  }

  static void write_tensors(const ShapeLearner& learner, Json& json) {
    if (learner.offsets_ && learner.offsets_->size() != 2) {
      json["tensors"] = *learner.offsets_;
    }
  }

  static ShapeLearner read(const JsonView& json) {
    json.allow_only({"axes", "tensors", "observations", "certain", "inferred", "dropped"});
    const JsonView rows = json.at("observations");
    const std::int64_t max_axes = rows.size() == 0 && !json.find("dropped")
                                      ? kMaxBareAxes
                                      : std::numeric_limits<std::uint32_t>::max();
    const auto axis_count = static_cast<std::size_t>(json.at("axes").integer(0, max_axes));
    std::vector<Observation> observations = read_observations(rows, axis_count);
    read_labels(json, "certain", BatchLabel::Certain, observations);
    read_labels(json, "inferred", BatchLabel::Inferred, observations);
    ShapeLearner learner(axis_count);
    for (const Observation& observation : observations) {
      learner.observe(observation);
    }
    if (const auto dropped = json.find("dropped")) {
      learner.observations_.widen(read_dropped(*dropped, axis_count));
    }
    if (const auto tensors = json.find("tensors")) {
      const std::vector<std::int64_t> offsets =
          integers(*tensors, 0, std::numeric_limits<std::uint32_t>::max());
      at_path(*tensors, [&] {
        learner.set_tensors(
            std::make_shared<const std::vector<std::uint32_t>>(offsets.begin(), offsets.end()));
      });
    }
    return learner;
  }
};

Json to_json(const ShapeLearner& learner) {
  Json json = ShapeLearnerJson::write(learner);
  ShapeLearnerJson::write_tensors(learner, json);
  return json;
}

ShapeLearner shape_learner_from_json(const JsonView& json) { return ShapeLearnerJson::read(json); }

Json to_json(const TensorSpec& spec) {
  return {{"name", name_to_json(spec.name())},
          {"dtype", to_json(spec.dtype())},
          {"device", to_json(spec.device())},
          {"layout", to_json(spec.layout())},
          {"learned", to_json(spec.learner())}};
}

TensorSpec tensor_spec_from_json(const JsonView& json) {
  json.allow_only({"name", "dtype", "device", "layout", "learned"});
  return {name_from_json(json.at("name")), dtype_from_json(json.at("dtype")),
          device_type_from_json(json.at("device")), layout_from_json(json.at("layout")),
          shape_learner_from_json(json.at("learned"))};
}

Json to_json(const SampleMetadata& metadata) {
  // The structure says which axes are of which tensor.
  return {{"strict", metadata.strict()},
          {"structure", to_json(metadata.tree())},
          {"learned", ShapeLearnerJson::write(metadata.learner())}};
}

SampleMetadata sample_metadata_from_json(const JsonView& json) {
  json.allow_only({"strict", "structure", "learned"});
  const bool strict = json.at("strict").boolean();
  const JsonView learned = json.at("learned");
  CallTree tree = call_tree_from_json(json.at("structure"));
  ShapeLearner learner = shape_learner_from_json(learned);
  return at_path(learned,
                 [&] { return SampleMetadata(std::move(tree), strict, std::move(learner)); });
}

}  // namespace graphtune
