#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls.h"
#include "graphtune/error.h"
#include "graphtune/sample_metadata.h"

namespace graphtune {
namespace {

using test::Call;
using test::ids;
using test::message_of;
using test::Named;
using test::Result;
using test::zeros;
using ::testing::HasSubstr;

SampleMetadata inputs(std::vector<Value> positional, Named named = {}, bool strict = true,
                      std::optional<std::int64_t> batch_size = std::nullopt) {
  return SampleMetadata(Call(std::move(positional), std::move(named)).tree, strict, batch_size);
}

SampleMetadata outputs(Value value) { return SampleMetadata(Result(std::move(value)).tree, true); }

std::string difference(const SampleMetadata& known, const SampleMetadata& given) {
  return describe_difference(known, given);
}

TEST(SampleMetadata, SizesDoNotDecideTheGraph) {
  EXPECT_EQ(inputs({zeros({1, 2})}), inputs({zeros({3, 4})}));
  EXPECT_EQ(inputs({zeros({1, 2})}).key().hash(), inputs({zeros({3, 4})}).key().hash());
  EXPECT_EQ(difference(inputs({zeros({1, 2})}), inputs({zeros({3, 4})})), "");
}

TEST(SampleMetadata, DifferencesAreNamed) {
  const SampleMetadata known = inputs({zeros({1, 2})}, {{"x", Value::list({1, "a"})}});
  const auto with = [](Value x) { return inputs({zeros({1, 2})}, {{"x", std::move(x)}}); };
  EXPECT_EQ(difference(inputs({zeros({1})}), inputs({zeros({1, 2})})),
            "tensor [0] has rank 1, here 2");
  EXPECT_EQ(difference(inputs({zeros({1})}), inputs({ids({1})})),
            "tensor [0] has dtype float32, here int64");
  EXPECT_EQ(difference(known, with(Value::list({2, "a"}))), "['x'][0] is 1, here 2");
  EXPECT_EQ(difference(known, with(Value::list({1.0, "a"}))),
            "['x'][0] is 1 (int), here 1.0 (float)");
  EXPECT_EQ(difference(known, with(Value::list({1, "b"}))), "['x'][1] is 'a', here 'b'");
  EXPECT_EQ(difference(known, with(Value::list({1}))), "['x'] has 2 items, here 1");
  EXPECT_EQ(difference(known, with(Value::tuple({1, "a"}))), "['x'] is a list, here a tuple");
  EXPECT_EQ(difference(known, with(nullptr)), "['x'] is a list, here None");
  EXPECT_EQ(difference(known, with(zeros({1}))), "['x'] is a list, here a tensor");
  EXPECT_EQ(difference(known, inputs({zeros({1, 2})})), "argument ['x'] is missing here");
  EXPECT_EQ(difference(inputs({zeros({1, 2})}), known), "argument ['x'] is new here");
  EXPECT_EQ(difference(known, inputs({}, {{"x", 1}})), "1 positional argument, here 0");
  EXPECT_EQ(difference(inputs({}, {{"a", 1}, {"c", 1}}), inputs({}, {{"a", 1}, {"b", 1}})),
            "argument ['b'] is new here");
  EXPECT_EQ(difference(inputs({Value::object("m.A", {})}), inputs({Value::object("m.B", {})})),
            "[0] is an object of class m.A, here an object of class m.B");
  EXPECT_EQ(difference(outputs(zeros({1})), outputs(nullptr)), "the result is a tensor, here None");
  EXPECT_EQ(difference(outputs(1), inputs({1})), "one is of a result, the other of inputs");
}

TEST(SampleMetadata, StrictModeDecidesWhetherConstantsCount) {
  const auto loose = [](Value mode) {
    return inputs({zeros({1})}, {{"mode", std::move(mode)}}, false);
  };
  const auto strict = [](Value mode) { return inputs({zeros({1})}, {{"mode", std::move(mode)}}); };
  EXPECT_EQ(loose("train"), loose(2.5));
  EXPECT_FALSE(loose("train") == loose(zeros({1})));
  EXPECT_FALSE(strict("train") == strict("eval"));
  EXPECT_EQ(strict(std::numeric_limits<double>::quiet_NaN()),
            strict(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(loose("train").other_data().empty());
  const auto other = strict("train").other_data();
  ASSERT_EQ(other.size(), 1U);
  EXPECT_EQ(other[0].first.to_string(), "['mode']");
  EXPECT_EQ(other[0].second, Constant::string("train"));
}

TEST(SampleMetadata, OtherGraphsAreRefusedAndChangeNothing) {
  SampleMetadata metadata = inputs({zeros({1, 2})});
  const ShapeLearner before = metadata.learner();
  EXPECT_THAT(message_of<ValueError>([&] { metadata.update_shapes_seen(inputs({zeros({1})})); }),
              HasSubstr("tensor [0] has rank 2, here 1"));
  EXPECT_EQ(metadata.learner(), before);
}

TEST(SampleMetadata, BatchSizeMustBePositive) {
  for (const std::int64_t bad : {0, -1}) {
    EXPECT_THAT(message_of<ValueError>([&] { inputs({zeros({1})}, {}, true, bad); }),
                HasSubstr("batch_size must be at least 1"));
  }
}

TEST(SampleMetadata, RowsStandInTheOrderOfTheCall) {
  // Keyword arguments in another order are the same graph: what is learned goes to the right
  // tensor.
  SampleMetadata metadata = inputs({}, {{"z", zeros({1, 7})}, {"a", ids({2, 3})}}, true, 1);
  metadata.update_shapes_seen(inputs({}, {{"a", ids({4, 3})}, {"z", zeros({2, 7})}}, true, 2));
  const auto data = metadata.tensor_data();
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(data[0].first.to_string(), "['z']");
  EXPECT_EQ(data[0].second.describe(),
            "kwargs_z: torch.float32 ['batch0', 7], min [1, 7], max [2, 7]");
  EXPECT_EQ(data[1].second.describe(),
            "kwargs_a: torch.int64 ['batch0', 3], min [2, 3], max [4, 3]");
  const auto reports = metadata.explain();
  ASSERT_EQ(reports.size(), 4U);
  EXPECT_EQ(reports[0].name, "kwargs_z");
  EXPECT_EQ(reports[0].facts.axis_class, AxisClass::Batch);
  EXPECT_FALSE(reports[0].facts.ambiguous);
  EXPECT_EQ(reports[2].locator.to_string(), "['a']");
  EXPECT_EQ(reports[2].facts.multiplier, 2);
  EXPECT_TRUE(reports[2].facts.ambiguous);
  EXPECT_EQ(reports[3].axis, 1U);
  EXPECT_EQ(reports[3].explanation.reason, "size 3 in all samples, at batch sizes 1 and 2.");
}

TEST(SampleMetadata, OtherRowsAreSortedByNameAndNumber) {
  std::vector<Value> positional(12, Value(7));
  const SampleMetadata metadata = inputs(std::move(positional), {{"b", 1}, {"a", "x"}});
  std::vector<std::string> names;
  for (const auto& [locator, constant] : metadata.other_data()) {
    names.push_back(locator.to_string());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"[0]", "[1]", "[2]", "[3]", "[4]", "[5]", "[6]", "[7]",
                                             "[8]", "[9]", "[10]", "[11]", "['a']", "['b']"}));
}

TEST(SampleMetadata, TensorsOfOneSampleAreTold) {
  std::vector<Value> many;
  for (int i = 0; i < 11; ++i) {
    many.emplace_back(zeros({i + 1}));
  }
  EXPECT_EQ(inputs(std::move(many)).describe(InfoLevel::Short),
            "Tensors: args_0, args_1, args_2, args_3, args_4, args_5, args_6, args_7, args_8, "
            "args_9, args_10");
  const SampleMetadata collision =
      inputs({}, {{"a_b", zeros({1})}, {"a", Value::dict({{std::string("b"), zeros({2})}})}});
  EXPECT_EQ(collision.describe(InfoLevel::Short), "Tensors: kwargs_a_b__2, kwargs_a_b");
}

TEST(SampleMetadata, WithoutTensorsThatIsSaid) {
  EXPECT_EQ(inputs({}).describe(InfoLevel::Full), "Tensors: none");
  EXPECT_EQ(inputs({1}).describe(InfoLevel::Short), "Tensors: none\nOther: args_0");
  EXPECT_EQ(inputs({"007", true}).describe(InfoLevel::Medium),
            "Tensors: none\nOther:\n"
            "Locator    Name    Value\n"
            "---------  ------  -------\n"
            "[0]        args_0  007\n"
            "[1]        args_1  True");
}

TEST(SampleMetadata, LongAndOddTextsFitTheTable) {
  const SampleMetadata metadata = inputs({std::string(10'000'000, 'x'), "two\nlines", "1e5"});
  const std::string text = metadata.describe(InfoLevel::Full);
  EXPECT_LT(text.size(), 10'000U);
  EXPECT_THAT(text, HasSubstr("two\\nlines"));
  EXPECT_THAT(text, HasSubstr("│ 1e5 "));
  EXPECT_THAT(inputs({}, {{"it's", zeros({1})}}).describe(InfoLevel::Medium),
              HasSubstr("[\"it's\"]"));
}

TEST(SampleMetadata, OpaqueObjectsAreNamedByType) {
  CallTree tree;
  tree.open(NodeKind::Tuple);
  tree.step_index(0);
  tree.add_opaque(intern("my.Thing"));
  tree.close();
  tree.open(NodeKind::Dict);
  tree.close();
  tree.finish();
  const SampleMetadata metadata(tree, true);
  ASSERT_EQ(metadata.opaque_data().size(), 1U);
  EXPECT_EQ(metadata.opaque_data()[0].to_string(), "[0]");
  EXPECT_THAT(metadata.describe(InfoLevel::Medium), HasSubstr("[0]        args_0  my.Thing"));
}

TEST(SampleMetadata, ResultThatIsOneTensorHasNoLocator) {
  const SampleMetadata metadata = outputs(zeros({2, 3}));
  EXPECT_EQ(metadata.describe(InfoLevel::Medium),
            "Tensors:\n"
            "Locator    Name     Shape\n"
            "---------  -------  -------\n"
            "           outputs  [2, 3]");
}

TEST(SampleMetadata, ObservesTreesOfTheSameGraph) {
  SampleMetadata metadata = inputs({zeros({1, 5})}, {}, true, 1);
  const Call next({zeros({2, 5})});
  EXPECT_TRUE(metadata.observe(next.tree, 2));
  EXPECT_FALSE(metadata.observe(next.tree, 2));
  EXPECT_EQ(metadata.tensor_specs()[0].describe(),
            "args_0: torch.float32 ['batch0', 5], min [1, 5], max [2, 5]");
  EXPECT_THROW(metadata.observe(Call({zeros({2})}).tree, 2), ValueError);
  EXPECT_THROW(metadata.observe(metadata.tree(), 2), ValueError);
}

TEST(SampleMetadata, StoredPartsMustFit) {
  const SampleMetadata metadata = inputs({zeros({1, 5}), zeros({2})});
  const SampleMetadata copy(metadata.tree(), true, metadata.learner());
  EXPECT_EQ(copy, metadata);
  EXPECT_EQ(copy.describe(InfoLevel::Full), metadata.describe(InfoLevel::Full));
  ShapeLearner plain(3);
  plain.observe({1, {1, 5, 2}});
  EXPECT_EQ(SampleMetadata(metadata.tree(), true, plain).axis_offsets(),
            (std::vector<std::uint32_t>{0, 2, 3}));
  EXPECT_THROW(SampleMetadata(metadata.tree(), true, ShapeLearner(2)), ValueError);
}

TEST(SampleMetadata, MergingUnitesRanges) {
  SampleMetadata a = inputs({zeros({1, 5})}, {}, true, 1);
  a.update_shapes_seen(inputs({zeros({2, 9})}, {}, true, 2));
  SampleMetadata b = inputs({zeros({8, 3})}, {}, true, 8);
  b.update_shapes_seen(inputs({zeros({4, 7})}, {}, true, 4));
  const SampleMetadata b_alone = b;
  SampleMetadata ab = a;
  ab.update_shapes_seen(b);
  b.update_shapes_seen(a);
  EXPECT_EQ(ab.learner(), b.learner());
  EXPECT_EQ(ab.tensor_specs()[0].describe(),
            "args_0: torch.float32 ['batch0', 'dim1'], min [1, 3], max [8, 9]");
  EXPECT_EQ(b_alone.tensor_specs()[0].min_shape(), (std::vector<std::int64_t>{4, 3}));
}

}  // namespace
}  // namespace graphtune
