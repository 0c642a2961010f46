#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graphtune/error.h"
#include "graphtune/graph_json.h"
#include "sample_bundle.h"

namespace graphtune {
namespace {

using test::message_of;
using ::testing::HasSubstr;

Json parse(const std::string& text) { return parse_json(text, "text"); }

TEST(GraphJson, ContractsReadBackEqual) {
  const SizeExpr b = SizeExpr::symbol(0);
  const SizeExpr s0 = SizeExpr::symbol(1);
  const Contract contract({{b, s0}, {2 * b, s0 + SizeExpr::constant(1), SizeExpr::constant(8)}},
                          {{1, 8}, {0, 64}}, {{1, -5, 9'000'000'000}});
  const Json json = to_json(contract);
  EXPECT_EQ(json["sizes"].dump(), R"([["b","s0"],["2*b","s0+1",8]])");
  EXPECT_EQ(json["symbols"].dump(), R"({"b":[1,8],"s0":[0,64]})");
  EXPECT_TRUE(contract_from_json(JsonView(json)) == contract);
  EXPECT_TRUE(contract_from_json(JsonView(to_json(Contract()))) == Contract());
}

TEST(GraphJson, ConditionsReadBackEqual) {
  const SizeExpr b = SizeExpr::symbol(0);
  const SizeExpr s0 = SizeExpr::symbol(1);
  const Contract contract(
      {{b, s0}}, {{1, 8}, {0, 64}}, {},
      {SizeCondition::parse("b*s0 <= 20"), SizeCondition::parse("b*s0 % 4 == 0 or b != s0")});
  const Json json = to_json(contract);
  EXPECT_EQ(json["conditions"].dump(), R"(["b*s0 <= 20","(b*s0) % 4 == 0 or b != s0"])");
  EXPECT_TRUE(contract_from_json(JsonView(json)) == contract);
  // Bundles without conditions are as they were.
  EXPECT_FALSE(to_json(Contract({{b, s0}}, {{1, 8}, {0, 64}}, {})).contains("conditions"));
}

TEST(GraphJson, PlansReadBackEqual) {
  Plan plan;
  plan.entries = {{"aoti", {{{0, {1, 4}}, {2, {3, 3}}, {11, {0, 5}}}}}, {"eager", {}}};
  EXPECT_EQ(plan_from_json(JsonView(to_json(plan))), plan);
  EXPECT_EQ(plan_from_json(JsonView(to_json(Plan{}))), Plan{});
}

TEST(GraphJson, SignaturesReadBackEqual) {
  const Signature signature({{"a", Parameter::Kind::PositionalOnly, false, {}},
                             {"x", Parameter::Kind::PositionalOrKeyword, false, {}},
                             {"mask", Parameter::Kind::PositionalOrKeyword, true, Constant::none()},
                             {"rest", Parameter::Kind::VarPositional, false, {}},
                             {"cache", Parameter::Kind::KeywordOnly, true, {}},
                             {"scale", Parameter::Kind::KeywordOnly, true, Constant::real(0.1)},
                             {"more", Parameter::Kind::VarKeyword, false, {}}});
  const Json json = to_json(signature);
  const Signature read = signature_from_json(JsonView(json));
  EXPECT_EQ(to_json(read), json);
  ASSERT_EQ(read.parameters().size(), 7U);
  EXPECT_TRUE(read.parameters()[4].has_default);
  EXPECT_FALSE(read.parameters()[4].default_value);
  EXPECT_TRUE(*read.default_of("mask") == Constant::none());
  EXPECT_TRUE(*read.default_of("scale") == Constant::real(0.1));
}

TEST(GraphJson, GraphSpecsReadBackEqual) {
  const test::SampleBundle sample;
  for (const StoredGraph& graph : sample.bundle.graphs) {
    const Json json = to_json(graph.spec);
    const GraphSpec read = graph_spec_from_json(JsonView(json));
    EXPECT_EQ(to_json(read), json);
    EXPECT_EQ(read.name(), graph.spec.name());
    EXPECT_EQ(read.sample_count(), graph.spec.sample_count());
    EXPECT_EQ(read.eager_reason(), graph.spec.eager_reason());
    EXPECT_EQ(read.input_spec(), graph.spec.input_spec());
    EXPECT_TRUE(read.contract() == graph.spec.contract());
    EXPECT_EQ(read.describe(InfoLevel::Full), graph.spec.describe(InfoLevel::Full));
  }
}

TEST(GraphJson, AReadSpecGoesOnLearning) {
  const test::SampleBundle sample;
  GraphSpec read = graph_spec_from_json(JsonView(to_json(sample.bundle.graphs[0].spec)));
  const test::Call call(test::Named{{"input_ids", test::ids({16, 4})}});
  EXPECT_TRUE(read.observe(call.tree, test::Result(test::SampleBundle::hidden(16, 4)).tree, 16));
  EXPECT_EQ(read.max_batch_size(), 16);
  EXPECT_EQ(read.eager_reason(), "");
}

TEST(GraphJson, ErrorsNameThePath) {
  const auto contract = [](const std::string& text) {
    return message_of<ValueError>(
        [&] { (void)contract_from_json(JsonView(parse(text), "contract")); });
  };
  EXPECT_THAT(contract(R"({"sizes": [["b*b"]], "symbols": {}, "index_ranges": []})"),
              HasSubstr("contract/sizes/0/0: "));
  EXPECT_THAT(contract(R"({"sizes": [[-1]], "symbols": {}, "index_ranges": []})"),
              HasSubstr("contract/sizes/0/0: "));
  EXPECT_THAT(contract(R"({"sizes": [["b"]], "symbols": {"b": [4, 1]}, "index_ranges": []})"),
              HasSubstr("contract: contract: the range of b is 4 to 1"));
  EXPECT_THAT(contract(R"({"sizes": [["b"]], "symbols": {"s5": [1, 4]}, "index_ranges": []})"),
              HasSubstr("contract/symbols: "));
  EXPECT_THAT(contract(R"({"sizes": [["b"]], "symbols": {"2*b": [1, 4]}, "index_ranges": []})"),
              HasSubstr("contract/symbols/"));
  EXPECT_THAT(
      contract(
          R"({"sizes": [], "symbols": {}, "index_ranges": [{"tensor": 0, "low": 0, "high": 1}]})"),
      HasSubstr("contract/index_ranges/0/tensor: "));
  EXPECT_THAT(contract(R"({"sizes": [["b"]], "symbols": {"b": [1, 4]}, "index_ranges": [],
                           "conditions": ["b < 3", "b*n < 3"]})"),
              HasSubstr("contract/conditions/1: 'b*n < 3' is no condition"));
  EXPECT_THAT(contract(R"({"sizes": [["b"]], "symbols": {"b": [1, 4]}, "index_ranges": [],
                           "conditions": ["s0 < 3"]})"),
              HasSubstr("contract: contract: the condition s0 < 3 refers to s0"));
  EXPECT_THAT(contract(R"({"sizes": [], "symbols": {}, "index_ranges": [], "x": 1})"),
              HasSubstr("x"));
  EXPECT_THAT(
      message_of<ValueError>([] {
        (void)plan_from_json(JsonView(parse(R"([{"engine": "e", "region": {"b": [1]}}])"), "plan"));
      }),
      HasSubstr("plan/0/region/b: expected the smallest and the largest value"));
  EXPECT_THAT(message_of<ValueError>([] {
                (void)signature_from_json(
                    JsonView(parse(R"([{"name": "x", "kind": "sideways"}])"), "signature"));
              }),
              HasSubstr("signature/0/kind: expected positional_only"));
}

}  // namespace
}  // namespace graphtune
