#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/error.h"
#include "graphtune/graph_spec.h"

namespace graphtune {
namespace {

using test::Call;
using test::ids;
using test::message_of;
using test::Named;
using test::Result;
using test::zeros;
using ::testing::AllOf;
using ::testing::HasSubstr;

Named text(std::int64_t batch, std::int64_t length) {
  return {{"input_ids", ids({batch, length})}, {"attention_mask", ids({batch, length})}};
}

Value hidden(std::int64_t batch, std::int64_t length) {
  return Value::object("m.Output",
                       {{Step::of_key(Constant::string("hidden")), zeros({batch, length, 4})},
                        {Step::of_key(Constant::string("mode")), "eval"}});
}

GraphSpec spec_of(const Call& call, const Value& result,
                  std::optional<std::int64_t> batch = std::nullopt) {
  return GraphSpec("graph_0", SampleMetadata(call.tree, true, batch),
                   SampleMetadata(Result(result).tree, true, batch));
}

TEST(GraphSpec, LearnsFromSamples) {
  GraphSpec spec = spec_of(Call(text(1, 5)), hidden(1, 5), 1);
  EXPECT_EQ(spec.min_batch_size(), 1);
  EXPECT_TRUE(spec.observe(Call(text(2, 9)).tree, Result(hidden(2, 9)).tree, 2));
  EXPECT_FALSE(spec.observe(Call(text(2, 9)).tree, Result(hidden(2, 9)).tree, 2));
  spec.update(SampleMetadata(Call(text(4, 7)).tree, true, 4),
              SampleMetadata(Result(hidden(4, 7)).tree, true, 4));
  EXPECT_EQ(spec.sample_count(), 4U);
  EXPECT_EQ(spec.min_batch_size(), 1);
  EXPECT_EQ(spec.max_batch_size(), 4);
  EXPECT_EQ(spec.eager_reason(), "");

  std::vector<std::int64_t> symbols(spec.contract().symbols().size());
  EXPECT_FALSE(spec.contract().check_sizes(Call(text(3, 6)).tree, symbols));
  EXPECT_TRUE(spec.contract().check_sizes(Call(text(3, 10)).tree, symbols));
}

TEST(GraphSpec, NewOutputSizesAloneAreNews) {
  GraphSpec spec = spec_of(Call(text(2, 5)), hidden(2, 5), 2);
  EXPECT_TRUE(spec.observe(Call(text(2, 5)).tree, Result(hidden(2, 3)).tree, 2));
  EXPECT_FALSE(spec.observe(Call(text(2, 5)).tree, Result(hidden(2, 3)).tree, 2));
}

TEST(GraphSpec, InputsOfAnotherGraphAreRefusedAndTeachNothing) {
  GraphSpec spec = spec_of(Call(text(1, 5)), hidden(1, 5), 1);
  const std::string message = message_of<ValueError>([&] {
    spec.update(
        SampleMetadata(
            Call(Named{{"input_ids", zeros({1, 5})}, {"attention_mask", ids({1, 5})}}).tree, true),
        SampleMetadata(Result(hidden(1, 5)).tree, true));
  });
  EXPECT_THAT(message, HasSubstr("['input_ids']"));
  EXPECT_EQ(spec.sample_count(), 1U);
}

TEST(GraphSpec, AResultThatChangesItsFormIsNotTuned) {
  const auto reason = [](const Value& first, const Value& second, bool strict) {
    const Call call({zeros({1, 2})});
    GraphSpec spec("g", SampleMetadata(call.tree, strict),
                   SampleMetadata(Result(first).tree, strict));
    EXPECT_EQ(spec.eager_reason(), "");
    (void)spec.observe(call.tree, Result(second).tree, std::nullopt);
    GraphSpec updated("g", SampleMetadata(call.tree, strict),
                      SampleMetadata(Result(first).tree, strict));
    updated.update(SampleMetadata(call.tree, strict), SampleMetadata(Result(second).tree, strict));
    EXPECT_EQ(spec.eager_reason(), updated.eager_reason());
    return spec.eager_reason();
  };
  for (const bool strict : {true, false}) {
    EXPECT_THAT(reason(Value::list({zeros({1})}), Value::list({zeros({1, 1})}), strict),
                HasSubstr("[0]"));
    EXPECT_THAT(reason(Value::list({zeros({1})}), Value::list({ids({1})}), strict),
                AllOf(HasSubstr("[0]"), HasSubstr("int64")));
    EXPECT_NE(reason(Value::list({zeros({1})}), Value::tuple({zeros({1})}), strict), "");
    EXPECT_NE(reason(zeros({1}), Value::list({zeros({1})}), strict), "");
    // Constants of a result count in any mode: an engine would give the first sample's.
    EXPECT_THAT(reason(Value::list({zeros({1}), 3}), Value::list({zeros({1}), 4}), strict),
                AllOf(HasSubstr("[1]"), HasSubstr("3"), HasSubstr("4")));
    EXPECT_EQ(reason(Value::list({zeros({1}), 3}), Value::list({zeros({2}), 3}), strict), "");
  }
}

TEST(GraphSpec, FirstReasonStays) {
  const Call call({zeros({1, 2})});
  GraphSpec spec = spec_of(call, zeros({1}));
  (void)spec.observe(call.tree, Result(ids({1})).tree, std::nullopt);
  const std::string first = spec.eager_reason();
  (void)spec.observe(call.tree, Result(Value::list({})).tree, std::nullopt);
  EXPECT_EQ(spec.eager_reason(), first);
  spec.set_eager_reason("the exporter said no");
  EXPECT_EQ(spec.eager_reason(), "the exporter said no");
}

TEST(GraphSpec, WhatNoEngineCanServeIsSaidFromTheFirstSample) {
  CallTree opaque;
  opaque.open(NodeKind::Tuple);
  opaque.close();
  opaque.open(NodeKind::Dict);
  opaque.step_key(Constant::string("cache"));
  opaque.add_opaque(intern("m.Cache"));
  opaque.close();
  opaque.finish();
  const GraphSpec with_opaque("g", SampleMetadata(opaque, true),
                              SampleMetadata(Result(zeros({1})).tree, true));
  EXPECT_THAT(with_opaque.eager_reason(),
              AllOf(HasSubstr("['cache']"), HasSubstr("m.Cache"), HasSubstr("register")));

  CallTree sparse;
  TensorView view;
  const std::int64_t size = 3;
  view.rank = 1;
  view.sizes = &size;
  view.layout = Layout::Sparse;
  sparse.open(NodeKind::Tuple);
  sparse.step_index(0);
  sparse.add_tensor(view);
  sparse.close();
  sparse.open(NodeKind::Dict);
  sparse.close();
  sparse.finish();
  const GraphSpec with_sparse("g", SampleMetadata(sparse, true),
                              SampleMetadata(Result(zeros({1})).tree, true));
  EXPECT_THAT(with_sparse.eager_reason(), AllOf(HasSubstr("[0]"), HasSubstr("sparse_coo")));

  const Call call({zeros({1})});
  EXPECT_EQ(spec_of(call, 5).eager_reason(), "the result holds no tensor");
  EXPECT_THAT(spec_of(call, Value::list({zeros({1}), std::string(1000, 'x')})).eager_reason(),
              HasSubstr("[1] is a text too long"));
}

TEST(GraphSpec, ContractIsTheValidatedOneOnceSet) {
  GraphSpec spec = spec_of(Call(Named{{"x", zeros({2, 3})}}), zeros({2, 3}));
  EXPECT_EQ(spec.contract().sizes()[0][1], (SizeExpr{3, {}}));
  const SizeExpr b{0, {{0, 1}}};
  const Contract wide({{b, SizeExpr{3, {}}}}, {{1, 64}}, {{0, 0, 9}});
  spec.set_contract(wide);
  EXPECT_TRUE(spec.contract() == wide);
  EXPECT_THROW(spec.set_contract(Contract({{b}}, {{1, 2}}, {})), ValueError);
  EXPECT_THROW(spec.set_contract(Contract({}, {}, {})), ValueError);
  EXPECT_TRUE(spec.contract() == wide);
}

TEST(GraphSpec, DescribesItselfWhole) {
  GraphSpec spec = spec_of(Call(text(1, 5)), hidden(1, 5), 1);
  (void)spec.observe(Call(text(2, 9)).tree, Result(hidden(2, 9)).tree, 2);
  (void)spec.observe(Call(text(4, 7)).tree, Result(hidden(4, 7)).tree, 4);
  const std::string full = spec.describe(InfoLevel::Full);
  EXPECT_THAT(full, HasSubstr("graph_0: 3 samples, batch size 1 to 4\nInputs\nTensors:\n╒"));
  EXPECT_THAT(full, HasSubstr("['batch0', 'dim1']"));
  EXPECT_THAT(full, HasSubstr("Outputs\nTensors:"));
  EXPECT_THAT(full, HasSubstr("\nSymbols\n  b = 1 to 4: axis 0 of ['input_ids'], axis 0 of "
                              "['attention_mask']\n  s0 = 5 to 9: axis 1 of ['input_ids']"));
  EXPECT_THAT(full, Not(HasSubstr("Stays eager")));
  spec.set_eager_reason("the exporter said no");
  EXPECT_THAT(spec.describe(InfoLevel::Short), HasSubstr("\nStays eager: the exporter said no"));
  EXPECT_THAT(spec.describe(InfoLevel::Short), HasSubstr("Tensors: kwargs_input_ids"));
}

TEST(GraphSpec, AmbiguitiesSayWhichSampleWouldSettleThem) {
  GraphSpec spec = spec_of(Call({zeros({1, 10})}), zeros({1}), 1);
  (void)spec.observe(Call({zeros({2, 20})}).tree, Result(zeros({2})).tree, 2);
  const std::string text = spec.describe(InfoLevel::Medium);
  EXPECT_THAT(text, HasSubstr("\nAmbiguous\n  axis 1 of [0]: "));
  EXPECT_THAT(text, HasSubstr("To settle it: "));
}

TEST(GraphSpec, CopiesAreIndependent) {
  GraphSpec spec = spec_of(Call({zeros({1, 10})}), zeros({1}), 1);
  const GraphSpec copy = spec;
  (void)spec.observe(Call({zeros({2, 20})}).tree, Result(zeros({2})).tree, 2);
  EXPECT_EQ(copy.sample_count(), 1U);
  EXPECT_EQ(copy.max_batch_size(), 1);
}

}  // namespace
}  // namespace graphtune
