#include <map>
#include <unordered_set>

#include <gtest/gtest.h>

#include "graphtune/call_key.h"
#include "graphtune/hash.h"
#include "graphtune/value.h"
#include "random_value.h"

namespace graphtune {
namespace {

Tensor tensor(DType dtype = DType::Float32, const Dims& sizes = {2, 3}) {
  return Tensor::zeros(dtype, sizes);
}

CallKey key_of(const Arguments& call, bool strict = true) {
  CallTree tree;
  flatten(call, tree);
  return {tree, strict};
}

CallKey key_of(const Value& result, bool strict = true) {
  CallTree tree;
  flatten(result, tree);
  return {tree, strict};
}

CallKey key_of(const TensorView& view) {
  CallTree tree(CallTree::Kind::Result);
  tree.add_tensor(view);
  tree.finish();
  return {tree, true};
}

Arguments args(std::vector<Value> positional) {
  return {.positional = std::move(positional), .named = {}};
}

void expect_all_differ(const std::vector<Value>& values, bool strict = true) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      EXPECT_EQ(key_of(values[i], strict) == key_of(values[k], strict), i == k)
          << i << " and " << k;
      EXPECT_EQ(key_of(args({values[i]}), strict) == key_of(args({values[k]}), strict), i == k);
    }
  }
}

TEST(CallKey, TensorsMeetByRankAndType) {
  expect_all_differ({tensor(), tensor(DType::Float32, {2}), tensor(DType::Float32, {}),
                     tensor(DType::Float16), tensor(DType::Int64), 1});
  EXPECT_EQ(key_of(tensor(DType::Float32, {2, 3})), key_of(tensor(DType::Float32, {50, 0})));
}

TEST(CallKey, LayoutAndDeviceTypeCountTheDevicesNumberDoesNot) {
  const Tensor data = tensor();
  TensorView sparse = data.view();
  sparse.layout = Layout::Sparse;
  TensorView cuda = data.view();
  cuda.device = DeviceType::Cuda;
  TensorView second = cuda;
  second.device_index = 1;
  EXPECT_FALSE(key_of(data.view()) == key_of(sparse));
  EXPECT_FALSE(key_of(data.view()) == key_of(cuda));
  EXPECT_EQ(key_of(cuda), key_of(second));
}

TEST(CallKey, ConstantsMeetByTypeAndValueInStrictMode) {
  expect_all_differ({true, 1, 1.0, "1", Constant::bytes("1"), Value(), 0.0, -0.0, NAN, "",
                     Constant::other("m.Color", "1"),
                     Constant::big_integer("0x10000000000000000")});
  EXPECT_EQ(key_of(Value(NAN)), key_of(Value(-NAN)));
}

TEST(CallKey, ConstantsAreIgnoredWhenNotStrictStructureIsNot) {
  EXPECT_EQ(key_of(Value(1), false), key_of(Value("text"), false));
  expect_all_differ({1, Value::list({1}), Value::list({1, 2}), tensor(), Value::list({tensor()})},
                    false);
  // Keys of dicts are structure.
  expect_all_differ({Value::dict({{"a", 1}}), Value::dict({{"b", 1}})}, false);
  EXPECT_FALSE(key_of(Value(1), false) == key_of(Value(1), true));
  EXPECT_EQ(key_of(Value::list({tensor()}), false), key_of(Value::list({tensor()}), true));
}

TEST(CallKey, EmptyContainersDiffer) {
  expect_all_differ({Value::list({}), Value::tuple({}),
                     Value::dict(std::vector<std::pair<std::string, Value>>{}),
                     Value::object("m.T", {}), Value::object("m.U", {}), Value()});
  EXPECT_FALSE(key_of(args({})) == key_of(args({Value::list({})})));
  EXPECT_FALSE(key_of(args({Value::list({}), Value::list({})})) ==
               key_of(args({Value::list({Value::list({})})})));
}

TEST(CallKey, ContainersMeetByType) {
  const std::vector<std::pair<Step, Value>> attribute{{Step::attribute("x"), tensor()}};
  const std::vector<std::pair<Step, Value>> item{{Step::of_key(Constant::string("x")), tensor()}};
  expect_all_differ({Value::list({tensor()}), Value::tuple({tensor()}),
                     Value::dict({{"x", tensor()}}), Value::object("m.Named", attribute),
                     Value::object("m.Data", attribute), Value::object("m.Data", item),
                     Value::object("collections.OrderedDict", item),
                     Value::object("collections.deque", {{Step::at(0), tensor()}})});
}

TEST(CallKey, PositionalAndNamedDiffer) {
  const CallKey positional = key_of(args({tensor()}));
  EXPECT_FALSE(positional == key_of(Arguments{.positional = {}, .named = {{"x", tensor()}}}));
  EXPECT_FALSE(key_of(Arguments{.positional = {}, .named = {{"x", tensor()}}}) ==
               key_of(Arguments{.positional = {}, .named = {{"y", tensor()}}}));
}

TEST(CallKey, OpaqueObjectsMeetByType) {
  const auto key = [](const char* type) {
    CallTree tree(CallTree::Kind::Result);
    tree.add_opaque(intern(type));
    tree.finish();
    return CallKey(tree, false);
  };
  EXPECT_EQ(key("m.Holder"), key("m.Holder"));
  EXPECT_FALSE(key("m.Holder") == key("m.Other"));
  EXPECT_FALSE(key("m.Holder") == key_of(Value(1), false));
}

TEST(CallKey, KeysOfOtherTypesAreOtherKeys) {
  expect_all_differ({Value::dict({{Constant::integer(0), tensor()}}),
                     Value::dict({{Constant::string("0"), tensor()}}),
                     Value::dict({{Constant::boolean(false), tensor()}})});
}

TEST(CallKey, LongStringsEnterAsDigests) {
  const std::string text(1'000'000, 'x');
  EXPECT_LT(key_of(Value(text)).bytes().size(), 100U);
  EXPECT_FALSE(key_of(Value(text)) == key_of(Value(text + "x")));
}

TEST(CallKey, OrderOfKeysNeverMatters) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    RandomValue random(seed);
    const Arguments call = random.arguments(4);
    const Arguments other = random.shuffled(call);
    for (const bool strict : {false, true}) {
      EXPECT_EQ(key_of(call, strict), key_of(other, strict)) << seed;
      EXPECT_EQ(key_of(call, strict).hash(), key_of(other, strict).hash()) << seed;
    }
  }
}

/// Structure in full, with dicts sorted: equal exactly if two values are of one graph.
std::string description(const Value& value) {
  if (value.is_tensor()) {
    const TensorView view = value.tensor().view();
    return "T" + std::to_string(view.rank) + std::string(to_string(view.dtype));
  }
  if (value.is_constant()) {
    const Constant& constant = value.constant();
    return "C(" + std::string(constant.type_name()) + ")" + constant.repr();
  }
  const Container& container = value.container();
  std::vector<std::string> children;
  for (const auto& [step, child] : container.children) {
    const std::string kind =
        std::to_string(static_cast<int>(step.kind)) + std::string(step.key.type_name());
    children.push_back(kind + Locator(Root::Args, {step}).to_string() + "=" + description(child));
  }
  if (container.kind == NodeKind::Dict || container.kind == NodeKind::Object) {
    std::sort(children.begin(), children.end());
  }
  std::string text = "K" + std::to_string(static_cast<int>(container.kind)) + container.type + "<";
  for (const std::string& child : children) {
    text += child + ";";
  }
  return text + ">";
}

TEST(CallKey, RandomValuesMeetExactlyWhenTheirStructuresDo) {
  std::map<std::string, std::string> bytes_of;        // by description
  std::map<std::string, std::string> description_of;  // by bytes
  RandomValue random(7);
  for (int i = 0; i < 5000; ++i) {
    const Value value = random.value(2);
    const std::string text = description(value);
    const std::string bytes = key_of(value).bytes();
    EXPECT_EQ(bytes_of.emplace(text, bytes).first->second, bytes) << text;
    EXPECT_EQ(description_of.emplace(bytes, text).first->second, text);
  }
  EXPECT_GT(bytes_of.size(), 1000U);
  // Prefix-free: in the sorted order a prefix stands just before what it begins.
  for (auto i = description_of.begin(); std::next(i) != description_of.end(); ++i) {
    EXPECT_FALSE(std::next(i)->first.starts_with(i->first));
  }
}

TEST(CallKey, AssignReusesAndRebuilds) {
  CallTree tree;
  const Value big = Value::list(std::vector<Value>(1000, tensor()));
  flatten(big, tree);
  CallKey key(tree, true);
  const Value small = tensor();
  flatten(small, tree);
  key.assign(tree, true);
  EXPECT_EQ(key, key_of(small));
  EXPECT_EQ(key.hash(), key_of(small).hash());
  EXPECT_EQ(CallKey(key.bytes()), key);
}

// The messages and seeds of the reference implementation's test_vector.cpp.
TEST(HashBytes, MatchesTheReferenceImplementation) {
  EXPECT_EQ(hash_bytes("", 0), 0x93228a4de0eec5a2U);
  EXPECT_EQ(hash_bytes("a", 1), 0xc5bac3db178713c4U);
  EXPECT_EQ(hash_bytes("abc", 2), 0xa97f2f7b1d9b3314U);
  EXPECT_EQ(hash_bytes("message digest", 3), 0x786d1f1df3801df4U);
  EXPECT_EQ(hash_bytes("abcdefghijklmnopqrstuvwxyz", 4), 0xdca5a8138ad37c87U);
  EXPECT_EQ(hash_bytes("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 5),
            0xb9e734f117cfaf70U);
  EXPECT_EQ(
      hash_bytes("12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                 6),
      0x6cc5eab49a92d617U);
}

TEST(HashBytes, SpreadsSimilarBytes) {
  std::unordered_set<std::uint64_t> seen;
  std::string bytes(200, '\0');
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    seen.insert(hash_bytes(std::string_view(bytes).substr(0, size)));
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = bytes;
      other[i] = static_cast<char>(1 << bit);
      seen.insert(hash_bytes(other));
    }
  }
  EXPECT_EQ(seen.size(), 201U + 1600U);
}

}  // namespace
}  // namespace graphtune
