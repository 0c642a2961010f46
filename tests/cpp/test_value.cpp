#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphtune/call_key.h"
#include "graphtune/error.h"
#include "graphtune/value.h"
#include "random_value.h"

namespace graphtune {
namespace {

using testing::HasSubstr;

template <typename ErrorType>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "nothing of this type was thrown";
}

Tensor tensor() { return Tensor::zeros(DType::Float32, {2, 3}); }

TEST(Value, TakesWhatCppHas) {
  EXPECT_TRUE(Value().is_none());
  EXPECT_TRUE(Value(nullptr).is_none());
  EXPECT_EQ(Value(true).constant(), Constant::boolean(true));
  EXPECT_EQ(Value(7).constant(), Constant::integer(7));
  EXPECT_EQ(Value(std::size_t{7}).constant(), Constant::integer(7));
  EXPECT_EQ(Value(~std::uint64_t{0}).constant(), Constant::big_integer("18446744073709551615"));
  EXPECT_EQ(Value(0.5F).constant(), Constant::real(0.5));
  EXPECT_EQ(Value("a").constant(), Constant::string("a"));
  EXPECT_EQ(Value(std::string("a")).constant(), Constant::string("a"));
  EXPECT_TRUE(Value(tensor()).is_tensor());
  EXPECT_FALSE((std::is_constructible_v<Value, int*>));
}

TEST(Value, FindsChildrenByNameAndIndex) {
  const Value value = Value::object(
      "m.Output", {{Step::attribute("logits"), 1}, {Step::of_key(Constant::string("loss")), 2}});
  EXPECT_EQ(value["logits"].constant(), Constant::integer(1));
  EXPECT_EQ(value["loss"].constant(), Constant::integer(2));
  EXPECT_EQ(value.at(1).constant(), Constant::integer(2));
  EXPECT_EQ(value.size(), 2U);
  EXPECT_THAT(message_of<ValueError>([&] { (void)value["x"]; }), HasSubstr("'logits', 'loss'"));
  EXPECT_THAT(message_of<ValueError>([&] { (void)value.at(2); }), HasSubstr("2 children"));
}

TEST(Value, SaysWhatItIsWhenAskedForSomethingElse) {
  EXPECT_THAT(message_of<TypeError>([] { (void)Value(5).tensor(); }), HasSubstr("5 (int)"));
  EXPECT_THAT(message_of<TypeError>([] { (void)Value(tensor()).constant(); }),
              HasSubstr("a tensor"));
  EXPECT_THAT(message_of<TypeError>([] { (void)Value::list({}).tensor(); }), HasSubstr("a list"));
  EXPECT_THAT(message_of<TypeError>([] { (void)Value::object("m.T", {}).constant(); }),
              HasSubstr("m.T"));
  EXPECT_THAT(message_of<TypeError>([] { (void)Value("x")["y"]; }), HasSubstr("x (str)"));
}

TEST(Value, RefusesContainersThatCannotBe) {
  EXPECT_THROW((void)Value::dict({{"a", 1}, {"b", 2}, {"a", 3}}), ValueError);
  EXPECT_THROW((void)Value::container({NodeKind::Tensor, "", {}}), ValueError);
  EXPECT_THROW((void)Value::container({NodeKind::List, "m.T", {}}), ValueError);
  EXPECT_THROW((void)Value::object("", {}), ValueError);
  EXPECT_THROW((void)Value::container({NodeKind::List, "", {{Step::at(1), 1}}}), ValueError);
  EXPECT_THROW((void)Value::container({NodeKind::Tuple, "", {{Step::attribute("a"), 1}}}),
               ValueError);
  EXPECT_THROW((void)Value::container({NodeKind::Dict, "", {{Step::at(0), 1}}}), ValueError);
}

TEST(Value, NestsToTheLimitAndNoDeeper) {
  Value value = tensor();
  for (std::uint32_t i = 0; i < CallTree::kMaxDepth; ++i) {
    value = Value::list({value});
  }
  EXPECT_THROW((void)Value::list({value}), ValueError);
  CallTree tree;
  flatten(value, tree);
  EXPECT_EQ(tree.tensor_locators()[0].steps().size(), CallTree::kMaxDepth);
  const Arguments call{.positional = {value}, .named = {}};
  flatten(call, tree);
  const Arguments back = unflatten_arguments(tree, {tensor()});
  EXPECT_EQ(back.positional.size(), 1U);
}

TEST(Flatten, RefusesANameGivenTwice) {
  CallTree tree;
  const auto message = [&](std::vector<std::pair<std::string, Value>> named) {
    const Arguments call{.positional = {}, .named = std::move(named)};
    return message_of<ValueError>([&] { flatten(call, tree); });
  };
  EXPECT_THAT(message({{"x", 1}, {"x", 2}}), HasSubstr("'x'"));
  EXPECT_THAT(message({{"x", Value::list({1, 2})}, {"a", 1}, {"x", 2}}), HasSubstr("'x'"));
  EXPECT_THAT(message({{"x", 1}, {"y", Value::dict({{"x", 1}})}}), HasSubstr("nothing"));
}

TEST(Flatten, RefusesAnUndefinedTensor) {
  CallTree tree;
  EXPECT_THROW(flatten(Value(Tensor()), tree), ValueError);
}

std::vector<Tensor> canonical_tensors(const CallTree& tree) {
  // Tensors that can be told apart by their sizes.
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < tree.tensors().size(); ++i) {
    const std::size_t index = tree.is_canonical() ? i : tree.tensor_order()[i];
    const TensorView& view = tree.tensors()[index];
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(view.rank), 1);
    Tensor tensor = Tensor::zeros(view.dtype, Dims(std::span<const std::int64_t>(sizes)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

TEST(Unflatten, IsTheInverseOfFlatten) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const Arguments call = RandomValue(seed).arguments(4);
    CallTree tree;
    flatten(call, tree);
    const Arguments back = unflatten_arguments(tree, canonical_tensors(tree));
    CallTree again;
    flatten(back, again);
    EXPECT_EQ(CallKey(tree, true), CallKey(again, true)) << seed;
    // In the caller's order, not only the same graph.
    EXPECT_EQ(tree.tensor_locators(), again.tensor_locators()) << seed;
    EXPECT_EQ(tree.constant_locators(), again.constant_locators()) << seed;
  }
}

TEST(Unflatten, TakesTensorsInCanonicalOrder) {
  const Value result = Value::dict({{"b", tensor()}, {"a", tensor()}});
  CallTree tree;
  flatten(result, tree);
  const Tensor first = Tensor::zeros(DType::Float32, {1, 1});
  const Tensor second = Tensor::zeros(DType::Float32, {2, 2});
  const Value back = unflatten(tree, {first, second});
  EXPECT_EQ(back["a"].tensor().data(), first.data());
  EXPECT_EQ(back["b"].tensor().data(), second.data());
  EXPECT_EQ(back.at(0).tensor().data(), second.data());
}

TEST(Unflatten, RefusesWhatDoesNotFit) {
  CallTree tree;
  const Value result = Value::list({tensor()});
  flatten(result, tree);
  EXPECT_THROW((void)unflatten(tree, {}), ValueError);
  EXPECT_THROW((void)unflatten(tree, {tensor(), tensor()}), ValueError);
  EXPECT_THROW((void)unflatten_arguments(tree, {tensor()}), ValueError);
  EXPECT_THROW((void)unflatten(CallTree(CallTree::Kind::Result), {}), ValueError);
  EXPECT_THROW((void)unflatten(CallTree(CallTree::Kind::Inputs), {}), ValueError);

  tree.clear(CallTree::Kind::Result);
  tree.open(NodeKind::List);
  tree.step_index(0);
  tree.add_opaque(intern("m.Holder"));
  tree.close();
  tree.finish();
  EXPECT_THAT(message_of<ValueError>([&] { (void)unflatten(tree, {}); }),
              HasSubstr("m.Holder at [0]"));
}

}  // namespace
}  // namespace graphtune
