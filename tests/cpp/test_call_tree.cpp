#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphtune/call_tree.h"
#include "graphtune/error.h"
#include "graphtune/value.h"
#include "random_value.h"

namespace graphtune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor tensor() { return Tensor::zeros(DType::Float32, {2, 3}); }

std::vector<std::string> shown(const std::vector<Locator>& locators) {
  std::vector<std::string> texts;
  for (const Locator& locator : locators) {
    texts.push_back(locator.to_string());
  }
  return texts;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// The call of the document's nested example.
Arguments document_example() {
  const auto input = [](const char* metadata) {
    return Value::object("__main__.ModelInput", {{Step::attribute("data"), tensor()},
                                                 {Step::attribute("metadata"), metadata}});
  };
  return {.positional = {"first_arg", tensor(), Value::tuple({tensor(), tensor()}),
                         Value::dict({{"t", tensor()}}), input("info")},
          .named = {{"t1", tensor()},
                    {"t2", Value::list({tensor(), tensor()})},
                    {"t3", input("xyz")},
                    {"last", "other"}}};
}

TEST(CallTree, LocatesAndNamesTheDocumentsExample) {
  const Arguments call = document_example();
  CallTree tree;
  flatten(call, tree);
  EXPECT_THAT(shown(tree.tensor_locators()),
              ElementsAre("[1]", "[2][0]", "[2][1]", "[3]['t']", "[4].data", "['t1']", "['t2'][0]",
                          "['t2'][1]", "['t3'].data"));
  EXPECT_THAT(tree.leaf_names().tensors,
              ElementsAre("args_1", "args_2_0", "args_2_1", "args_3_t", "args_4.data", "kwargs_t1",
                          "kwargs_t2_0", "kwargs_t2_1", "kwargs_t3.data"));
  EXPECT_THAT(shown(tree.constant_locators()),
              ElementsAre("[0]", "[4].metadata", "['t3'].metadata", "['last']"));
  EXPECT_THAT(tree.leaf_names().constants,
              ElementsAre("args_0", "args_4.metadata", "kwargs_t3.metadata", "kwargs_last"));
  EXPECT_THAT(tree.tensor_locators()[0].root(), Root::Args);
  EXPECT_THAT(tree.tensor_locators()[5].root(), Root::Kwargs);
}

TEST(CallTree, AResultMayBeOneLeaf) {
  CallTree tree;
  const Value result = tensor();
  flatten(result, tree);
  EXPECT_EQ(tree.kind(), CallTree::Kind::Result);
  EXPECT_THAT(tree.leaf_names().tensors, ElementsAre("outputs"));
  EXPECT_EQ(tree.tensor_locators()[0], Locator(Root::Outputs, {}));
  flatten(Value(), tree);
  EXPECT_THAT(tree.leaf_names().constants, ElementsAre("outputs"));
}

TEST(CallTree, ResultsAreNamedByTheirPath) {
  CallTree tree;
  const Value result = Value::object(
      "m.Output", {{Step::of_key(Constant::string("last_hidden_state")), tensor()},
                   {Step::of_key(Constant::string("hidden")), Value::tuple({tensor(), tensor()})}});
  flatten(result, tree);
  EXPECT_THAT(tree.leaf_names().tensors,
              ElementsAre("outputs_last_hidden_state", "outputs_hidden_0", "outputs_hidden_1"));
}

TEST(CallTree, SortsChildrenByKeyAndRemembersTheCallersOrder) {
  const Arguments call{
      .positional = {},
      .named = {{"b", Value::tuple({tensor(), tensor()})}, {"c", 1}, {"a", tensor()}}};
  CallTree tree;
  flatten(call, tree);
  EXPECT_FALSE(tree.is_canonical());
  EXPECT_THAT(shown(tree.tensor_locators()), ElementsAre("['b'][0]", "['b'][1]", "['a']"));
  EXPECT_THAT(tree.tensor_order(), ElementsAre(2, 0, 1));
  EXPECT_THAT(tree.canonical_order(), ElementsAre(0, 1, 6, 2, 3, 4, 5));
  EXPECT_EQ(tree.locator_of(6).to_string(), "['a']");
}

TEST(CallTree, SortedCallsNeedNoOrder) {
  const Arguments call{.positional = {tensor()}, .named = {{"a", tensor()}, {"b", tensor()}}};
  CallTree tree;
  flatten(call, tree);
  EXPECT_TRUE(tree.is_canonical());
  EXPECT_TRUE(tree.tensor_order().empty());
}

TEST(CallTree, SortsManyChildrenAndNestedOnes) {
  std::vector<std::pair<std::string, Value>> items;
  for (int i = 999; i >= 0; --i) {
    items.emplace_back("key" + std::to_string(i), Value::dict({{"z", tensor()}, {"a", tensor()}}));
  }
  CallTree tree;
  const Value result = Value::dict(items);
  flatten(result, tree);
  const std::vector<Locator> locators = tree.tensor_locators();
  std::vector<std::string> in_order;
  for (const std::uint32_t index : tree.tensor_order()) {
    in_order.push_back(locators[index].to_string());
  }
  EXPECT_TRUE(std::is_sorted(in_order.begin(), in_order.end()));
  EXPECT_EQ(std::set<std::string>(in_order.begin(), in_order.end()).size(), 2000U);
}

TEST(CallTree, EqualKeysKeepTheCallersOrder) {
  // {nan: a, 1: b, nan: c} is a dict of three in Python.
  CallTree tree(CallTree::Kind::Result);
  const Tensor data = tensor();
  tree.open(NodeKind::Dict);
  for (const Constant& key : {Constant::real(NAN), Constant::integer(1), Constant::real(NAN)}) {
    tree.step_key(key);
    tree.add_tensor(data.view());
  }
  tree.close();
  tree.finish();
  EXPECT_THAT(tree.tensor_order(), ElementsAre(1, 0, 2));
  EXPECT_THAT(tree.leaf_names().tensors, ElementsAre("outputs_nan", "outputs_1", "outputs_nan__2"));
}

TEST(CallTree, NamesAreUnique) {
  const Value a_b = Value::dict({{"a_b", tensor()}, {"a", Value::dict({{"b", tensor()}})}});
  CallTree tree;
  flatten(a_b, tree);
  // "a" comes before "a_b" in canonical order, whatever the caller's.
  EXPECT_THAT(tree.leaf_names().tensors, ElementsAre("outputs_a_b__2", "outputs_a_b"));

  const Value keys = Value::dict({{Constant::string("0"), tensor()}, {Constant::integer(0), 5}});
  flatten(keys, tree);
  EXPECT_THAT(shown(tree.tensor_locators()), ElementsAre("['0']"));
  EXPECT_THAT(tree.leaf_names().tensors, ElementsAre("outputs_0__2"));
  EXPECT_THAT(tree.leaf_names().constants, ElementsAre("outputs_0"));
}

TEST(CallTree, NoNameCollidesWithOneThatExistsLiterally) {
  const Value value = Value::dict({{"a", Value::dict({{"b", tensor()}})},
                                   {"a_b", tensor()},
                                   {"a_b__2", tensor()},
                                   {"a_b__3", 1}});
  CallTree tree;
  flatten(value, tree);
  EXPECT_THAT(tree.leaf_names().tensors,
              ElementsAre("outputs_a_b", "outputs_a_b__4", "outputs_a_b__2"));
  EXPECT_THAT(tree.leaf_names().constants, ElementsAre("outputs_a_b__3"));
}

TEST(CallTree, NamesOfRandomCallsAreUniqueAndIndependentOfOrder) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    RandomValue random(seed);
    const Arguments call = random.arguments(3);
    const Arguments other = random.shuffled(call);
    CallTree tree;
    CallTree other_tree;
    flatten(call, tree);
    flatten(other, other_tree);
    const auto by_locator = [](const CallTree& t) {
      std::map<std::string, std::string> names;
      std::set<std::string> distinct;
      const CallTree::LeafNames leaves = t.leaf_names();
      const std::vector<Locator> locators = t.tensor_locators();
      for (std::size_t i = 0; i < locators.size(); ++i) {
        const std::string root(root_name(locators[i].root()));
        names[root + locators[i].to_string()] = leaves.tensors[i];
      }
      for (const auto* list : {&leaves.tensors, &leaves.constants, &leaves.opaques}) {
        distinct.insert(list->begin(), list->end());
      }
      EXPECT_EQ(distinct.size(),
                leaves.tensors.size() + leaves.constants.size() + leaves.opaques.size());
      return names;
    };
    EXPECT_EQ(by_locator(tree), by_locator(other_tree)) << seed;
  }
}

TEST(CallTree, LocatorOfAgreesWithTheListsOfLocators) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    CallTree tree;
    const Arguments call = RandomValue(seed).arguments(3);
    flatten(call, tree);
    const std::vector<Locator> tensors = tree.tensor_locators();
    const std::vector<Locator> constants = tree.constant_locators();
    for (std::uint32_t id = 0; id < tree.nodes().size(); ++id) {
      const Node& node = tree.nodes()[id];
      if (node.kind == NodeKind::Tensor) {
        EXPECT_EQ(tree.locator_of(id), tensors[node.leaf]);
      } else if (node.kind == NodeKind::Constant) {
        EXPECT_EQ(tree.locator_of(id), constants[node.leaf]);
      }
    }
  }
}

void open_nested(CallTree& tree, std::uint32_t depth) {
  for (std::uint32_t i = 0; i < depth; ++i) {
    tree.step_index(0);
    tree.open(NodeKind::List);
  }
}

TEST(CallTree, NestsToTheLimitAndNoDeeper) {
  CallTree tree;
  tree.open(NodeKind::Tuple);
  open_nested(tree, CallTree::kMaxDepth);
  tree.step_index(0);
  tree.add_constant(Constant::integer(1));
  for (std::uint32_t i = 0; i <= CallTree::kMaxDepth; ++i) {
    tree.close();
  }
  tree.open(NodeKind::Dict);
  tree.close();
  tree.finish();
  EXPECT_EQ(tree.constant_locators()[0].steps().size(), CallTree::kMaxDepth + 1);

  tree.clear(CallTree::Kind::Inputs);
  tree.open(NodeKind::Tuple);
  tree.step_index(0);
  tree.open(NodeKind::Dict);
  tree.step_key("first");
  tree.open(NodeKind::List);
  open_nested(tree, CallTree::kMaxDepth - 2);
  tree.step_index(0);
  const std::string message = message_of([&] { tree.open(NodeKind::Dict); });
  EXPECT_THAT(message, HasSubstr("1000"));
  EXPECT_THAT(message, HasSubstr("[0]['first'][0][0]…[0][0][0][0]"));
}

TEST(CallTree, AResultNestsAsDeepAsACall) {
  CallTree tree(CallTree::Kind::Result);
  tree.open(NodeKind::List);
  open_nested(tree, CallTree::kMaxDepth - 1);
  tree.step_index(0);
  EXPECT_THROW(tree.open(NodeKind::List), ValueError);
}

TEST(CallTree, RefusesMoreNodesThanTheLimit) {
  CallTree tree(CallTree::Kind::Result);
  tree.open(NodeKind::List);
  for (std::int64_t i = 0; i + 1 < CallTree::kMaxNodes; ++i) {
    tree.step_index(i);
    tree.add_constant(Constant());
  }
  tree.step_index(CallTree::kMaxNodes - 1);
  EXPECT_THAT(message_of([&] { tree.add_constant(Constant()); }), HasSubstr("[3999999]"));
}

TEST(CallTree, RefusesWhatIsNoTree) {
  const auto refused = [](CallTree::Kind kind, const std::function<void(CallTree&)>& build) {
    CallTree tree(kind);
    return message_of([&] { build(tree); }) != "nothing was thrown";
  };
  const auto result = CallTree::Kind::Result;
  const auto inputs = CallTree::Kind::Inputs;
  EXPECT_TRUE(refused(result, [](CallTree& t) { t.close(); }));
  EXPECT_TRUE(refused(result, [](CallTree& t) { t.finish(); }));
  EXPECT_TRUE(refused(inputs, [](CallTree& t) { t.finish(); }));
  EXPECT_TRUE(refused(inputs, [](CallTree& t) { t.open(NodeKind::Dict); }));
  EXPECT_TRUE(refused(inputs, [](CallTree& t) { t.add_constant(Constant()); }));
  EXPECT_TRUE(refused(result, [](CallTree& t) { t.open(NodeKind::Tensor); }));
  EXPECT_TRUE(refused(result, [](CallTree& t) { t.open(NodeKind::Object); }));
  EXPECT_TRUE(refused(result, [](CallTree& t) { t.open(NodeKind::List, intern("m.T")); }));
  EXPECT_TRUE(refused(result, [](CallTree& t) { t.add_opaque(nullptr); }));
  EXPECT_TRUE(refused(result, [](CallTree& t) { t.step_index(0), t.add_constant(Constant()); }));
  EXPECT_TRUE(
      refused(result, [](CallTree& t) { t.add_constant(Constant()), t.add_constant(Constant()); }));
  EXPECT_TRUE(refused(result, [](CallTree& t) { t.open(NodeKind::List), t.finish(); }));
  EXPECT_TRUE(
      refused(result, [](CallTree& t) { t.open(NodeKind::List), t.add_constant(Constant()); }));
  EXPECT_TRUE(refused(
      result, [](CallTree& t) { t.open(NodeKind::List), t.step_index(1), t.add_constant({}); }));
  EXPECT_TRUE(refused(
      result, [](CallTree& t) { t.open(NodeKind::List), t.step_key("a"), t.add_constant({}); }));
  EXPECT_TRUE(refused(
      result, [](CallTree& t) { t.open(NodeKind::Dict), t.step_index(0), t.add_constant({}); }));
  EXPECT_TRUE(refused(result, [](CallTree& t) {
    t.open(NodeKind::Dict), t.step_attribute("a"), t.add_constant({});
  }));
  EXPECT_TRUE(
      refused(result, [](CallTree& t) { t.open(NodeKind::Dict), t.step_key("a"), t.close(); }));
}

TEST(CallTree, ClearedTreesAreAsGoodAsNew) {
  CallTree reused;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const Arguments call = RandomValue(seed).arguments(3);
    flatten(call, reused);
    CallTree fresh;
    flatten(call, fresh);
    EXPECT_EQ(shown(reused.tensor_locators()), shown(fresh.tensor_locators()));
    EXPECT_TRUE(std::equal(reused.constants().begin(), reused.constants().end(),
                           fresh.constants().begin(), fresh.constants().end()));
    EXPECT_EQ(reused.canonical_order(), fresh.canonical_order());
    const CallTree copy = reused;
    EXPECT_EQ(copy.keys().size(), fresh.keys().size());
    CallTree moved = std::move(reused);
    EXPECT_TRUE(reused.keys().empty());  // NOLINT: a moved-from tree may be cleared and used again
    reused = std::move(moved);
  }
}

TEST(CallTree, DetachForgetsOnlyPointers) {
  CallTree tree;
  {
    const Value result = tensor();
    flatten(result, tree);
    tree.detach();
  }
  EXPECT_EQ(tree.tensors()[0].data, nullptr);
  EXPECT_TRUE(tree.tensors()[0].shape().empty());
  EXPECT_EQ(tree.tensors()[0].rank, 2);
  EXPECT_EQ(tree.tensors()[0].dtype, DType::Float32);
}

}  // namespace
}  // namespace graphtune
