#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graphtune/argument_changes.h"
#include "graphtune/error.h"
#include "graphtune/graph_json.h"
#include "graphtune/module.h"
#include "sample_bundle.h"

namespace graphtune {
namespace {

using test::ids;
using test::message_of;
using test::Result;
using test::SampleBundle;
using test::write_text;
using test::zeros;
using ::testing::HasSubstr;

/// Of a graph with two results and one input: the first result goes into a container, the input
/// too, and one extra result.
ArgumentChanges sample_changes() {
  const Value form = Value::tuple({zeros({1}), Value::list({ids({1, 4}), zeros({2})})});
  ArgumentChanges changes;
  changes.form = Result(form).tree;
  changes.form.detach();
  changes.sources = {0, -1, 2};
  changes.extra_results = 1;
  return changes;
}

/// The sample, whose engines give one tensor more than the result has.
void add_changes(SampleBundle& sample, const std::string& not_in_result = {}) {
  write_text(sample.source("small"), R"({"factor": 1, "outputs": [0, 0, 0]})");
  write_text(sample.source("large"), R"({"factor": 2, "outputs": [0, 0, 0]})");
  sample.bundle.graphs[0].output_alias = {-1, 0, -1};
  sample.bundle.graphs[0].changes = sample_changes();
  sample.bundle.graphs[0].changes->not_in_result = not_in_result;
}

TEST(ArgumentChanges, SourcesAreChecked) {
  const auto error = [](std::vector<std::int32_t> sources) {
    ArgumentChanges changes = sample_changes();
    changes.sources = std::move(sources);
    return message_of<ValueError>([&] { check_changes(changes, 2, 1); });
  };
  EXPECT_EQ(error({0, -1, 2}), "(nothing was thrown)");
  EXPECT_THAT(error({0, -1}), HasSubstr("2 sources for 3 tensors"));
  EXPECT_THAT(error({0, -1, 3}), HasSubstr("source 3 of 3 results"));
  EXPECT_THAT(error({0, -2, 2}), HasSubstr("source -2 of 3 results and 1 inputs"));
  ArgumentChanges call = sample_changes();
  call.form = CallTree(CallTree::Kind::Inputs);
  EXPECT_THROW(check_changes(call, 2, 1), ValueError);
}

TEST(ArgumentChanges, ABundleKeepsThem) {
  SampleBundle sample;
  add_changes(sample, "['past']");
  const Bundle read = read_bundle(sample.write());
  ASSERT_TRUE(read.graphs[0].changes.has_value());
  EXPECT_EQ(to_json(*read.graphs[0].changes), to_json(*sample.bundle.graphs[0].changes));
  EXPECT_EQ(read.graphs[0].changes->not_in_result, "['past']");
  EXPECT_EQ(read.graphs[0].output_alias, (std::vector<std::int32_t>{-1, 0, -1}));
  EXPECT_FALSE(read.graphs[1].changes.has_value());
}

TEST(ArgumentChanges, HostileManifestsAreRefusedWithTheirPath) {
  SampleBundle sample;
  add_changes(sample);
  const std::string text = write_manifest(sample.bundle);
  const auto at = [&](const char* pointer, const Json& value) {
    Json json = Json::parse(text);
    json[Json::json_pointer(pointer)] = value;
    return message_of<BundleError>([&] { (void)parse_manifest(json.dump()); });
  };
  EXPECT_THAT(at("/graphs/0/changes/extra", 1), HasSubstr("/graphs/0/changes: "));
  EXPECT_THAT(at("/graphs/0/changes/sources", {0, -1}), HasSubstr("/graphs/0/changes: "));
  EXPECT_THAT(at("/graphs/0/changes/sources", {0, -1, 9}), HasSubstr("source 9 of 3 results"));
  EXPECT_THAT(at("/graphs/0/changes/extra_results", -1), HasSubstr("/extra_results: "));
  EXPECT_THAT(at("/graphs/0/changes/extra_results", 2), HasSubstr("expected 4 numbers"));
}

TEST(ArgumentChanges, AResultInCppHasWhatBelongsToIt) {
  SampleBundle sample;
  add_changes(sample);
  const Module module = Module::load(sample.write());
  const Value result = module({ids({2, 5})});
  EXPECT_EQ(result.container().children.size(), 3U);
}

TEST(ArgumentChanges, AChangeThatTheResultDoesNotShowIsAMissInCpp) {
  SampleBundle sample;
  add_changes(sample, "['past']");
  const Module module = Module::load(sample.write());
  EXPECT_THAT(message_of<MissError>([&] {
                (void)module({ids({2, 5})});
              }),
              HasSubstr("graph_0 changes its argument ['past'], which is no part of its result"));
  EXPECT_EQ(module.stats().misses.at("not_tuned"), 1U);
}

}  // namespace
}  // namespace graphtune
