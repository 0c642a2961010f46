#include <chrono>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graphtune/call_key.h"
#include "graphtune/error.h"
#include "graphtune/json.h"
#include "graphtune/value.h"
#include "random_value.h"
#include "sample_constants.h"

namespace graphtune {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// Through text, as a file would hold it.
Json reread(const Json& json) { return parse_json(json.dump(), "test"); }

Constant constant_of(const std::string& text) {
  const Json json = parse_json(text, "test");
  return constant_from_json(JsonView(json));
}

CallTree tree_of(const std::string& text) {
  const Json json = parse_json(text, "test");
  return call_tree_from_json(JsonView(json));
}

void expect_round_trip(const Constant& constant) {
  const Json json = reread(to_json(constant));
  const Constant back = constant_from_json(JsonView(json));
  EXPECT_EQ(back, constant) << json;
  EXPECT_EQ(back.display(), constant.display()) << json;
  EXPECT_EQ(back.is_complete(), constant.is_complete()) << json;
  EXPECT_EQ(to_json(back), json);
  std::string bytes;
  std::string bytes_back;
  constant.encode(bytes);
  back.encode(bytes_back);
  EXPECT_EQ(bytes, bytes_back) << json;
}

TEST(ConstantJson, RoundTripsExactly) {
  for (const Constant& constant : distinct_constants()) {
    expect_round_trip(constant);
  }
  for (const double value :
       {0.1, -0.0, 1e300, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
        9007199254740993.0, 123456789.0, 1.0, 1e22, 1e-7}) {
    expect_round_trip(Constant::real(value));
  }
}

TEST(ConstantJson, RoundTripsTextsThatAreNoUtf8) {
  for (const std::string& text :
       {std::string("\xff\xfe"), std::string("\xed\xb2\x80"), std::string("a\0b", 3),
        std::string("\x80") + std::string(400, 'x'), std::string(300, '\xc3')}) {
    expect_round_trip(Constant::string(text));
    expect_round_trip(Constant::bytes(text));
    expect_round_trip(Constant::other("m.T", text, text));
    expect_round_trip(Constant::other(text.substr(0, 2), text));
  }
  expect_round_trip(Constant::other("m.T", std::string(1000, 'i'), std::string(1000, 'd')));
}

TEST(ConstantJson, UsesPlainJsonWhereItCan) {
  EXPECT_EQ(to_json(Constant::none()).dump(), "null");
  EXPECT_EQ(to_json(Constant::boolean(true)).dump(), "true");
  EXPECT_EQ(to_json(Constant::integer(-5)).dump(), "-5");
  EXPECT_EQ(to_json(Constant::real(1)).dump(), "1.0");
  EXPECT_EQ(to_json(Constant::real(-0.0)).dump(), "-0.0");
  EXPECT_EQ(to_json(Constant::string("é")).dump(), "\"é\"");
  EXPECT_EQ(to_json(Constant::real(NAN)).dump(), R"({"float":"nan"})");
  EXPECT_EQ(to_json(Constant::big_integer("18446744073709551616")).dump(),
            R"({"int":"0x10000000000000000"})");
}

TEST(ConstantJson, RefusesWhatIsNoConstant) {
  const std::string digest = "\"" + std::string(64, 'a') + "\"";
  const std::vector<std::pair<std::string, std::string>> rows{
      {"[]", "/: expected a constant, found an array"},
      {"{}", "missing"},
      {"18446744073709551615", "expected an integer"},
      {R"({"float": "NaN"})", "/float"},
      {R"({"float": 1.0})", "/float: expected a string"},
      {R"({"float": "nan", "x": 1})", "unknown"},
      {R"({"int": "12"})", "/int"},
      {R"({"int": "0xfg"})", "/int"},
      {R"({"int": "0x"})", "/int"},
      {R"({"int": ""})", "/int"},
      {R"({"int": "0x)" + std::string(300, 'f') + "\"}", "/int"},
      {R"({"int": "0xf", "size": 1000, "sha256": )" + digest + "}", "/int"},
      {R"({"bytes": "abc"})", "/bytes"},
      {R"({"bytes": "zz"})", "/bytes"},
      {R"({"string_hex": 5})", "/string_hex"},
      {R"({"type": "m.T"})", "missing"},
      {R"({"identity": "x"})", "missing"},
      {R"({"string": "x", "size": 1000})", "'sha256' is missing"},
      {R"({"string": "x", "size": 5, "sha256": )" + digest + "}", "/size"},
      {R"({"string": "x", "size": -1, "sha256": )" + digest + "}", "/size"},
      {R"({"string": "x", "size": 1000, "sha256": "aa"})", "/sha256"},
      {R"({"string": ")" + std::string(300, 'x') + R"(", "size": 1000, "sha256": )" + digest + "}",
       "shortened"},
  };
  for (const auto& [text, expected] : rows) {
    EXPECT_THAT(message_of([&] { (void)constant_of(text); }), HasSubstr(expected)) << text;
  }
}

TEST(ParseJson, RefusesDamagedDocuments) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", "line 1, column 1"},
      {"{", "bundle.json is not valid JSON"},
      {"[1,]", "column 4"},
      {"{\"a\":1,\"a\":2}", "'a' twice"},
      {"[{\"a\":{\"b\":1,\"b\":2}}]", "'b' twice"},
      {"1e999", "number overflow"},
      {"\"\xff\"", "not valid JSON"},
      {"NaN", "not valid JSON"},
      {"[1] 2", "not valid JSON"},
      {std::string(100, '[') + std::string(100, ']'), "nest deeper"},
      {std::string(5'000'000, '['), "nest deeper"},
  };
  for (const auto& [text, expected] : rows) {
    EXPECT_THAT(message_of([&] { (void)parse_json(text, "bundle.json"); }), HasSubstr(expected))
        << text.substr(0, 50);
  }
  EXPECT_EQ(parse_json(R"([{"a":1},{"a":2}])", "x").size(), 2U);
}

TEST(JsonView, NamesThePathAndWhatItFound) {
  const Json json =
      parse_json(R"({"a": [{"b": 300, "odd key/\n": -1}], "s": "text", "f": 0.5})", "test");
  const JsonView view(json);
  const JsonView a = view.at("a").at(0);
  EXPECT_EQ(message_of([&] { (void)a.at("b").integer(0, 255); }),
            "/a/0/b: expected an integer from 0 to 255, found 300");
  EXPECT_EQ(message_of([&] { (void)a.at("odd key/\n").integer(0, 9); }),
            "/a/0/'odd key/\\n': expected an integer from 0 to 9, found -1");
  EXPECT_EQ(message_of([&] { (void)view.at("x"); }), "/: the member 'x' is missing");
  EXPECT_EQ(message_of([&] { (void)view.at("s").at("y"); }),
            "/s: expected an object, found 'text'");
  EXPECT_EQ(message_of([&] { (void)view.at("s").size(); }), "/s: expected an array, found 'text'");
  EXPECT_EQ(message_of([&] { (void)view.at("s").string(3); }),
            "/s: the string has 4 bytes, more than the 3 allowed");
  EXPECT_THAT(message_of([&] { (void)view.at("a").at(1); }), HasSubstr("none at 1"));
  EXPECT_THAT(message_of([&] { (void)view.at("f").integer(0, 9); }), HasSubstr("found 0.5"));
  EXPECT_THAT(message_of([&] { (void)view.at("f").boolean(); }), HasSubstr("true or false"));
  EXPECT_THAT(message_of([&] { (void)view.at("s").number(); }), HasSubstr("a number"));
  EXPECT_THAT(message_of([&] { view.allow_only({"a", "s"}); }), HasSubstr("'f' is unknown"));
  EXPECT_EQ(view.members().size(), 3U);
  EXPECT_EQ(view.at("f").number(), 0.5);
}

TEST(LocatorJson, RoundTrips) {
  const std::vector<Locator> locators{
      Locator(Root::Outputs, {}), Locator(Root::Args, {Step::at(0), Step::attribute("data")}),
      Locator(Root::Kwargs, {Step::of_key(Constant::string("a")), Step::of_key(Constant::real(NAN)),
                             Step::of_key(Constant::integer(0)), Step::at(-1)})};
  for (const Locator& locator : locators) {
    const Json json = reread(to_json(locator));
    EXPECT_EQ(locator_from_json(JsonView(json)), locator) << json;
  }
  for (const char* text :
       {"[]", R"({"root": "args"})", R"({"root": "arg", "path": []})",
        R"({"root": "args", "path": [{}]})", R"({"root": "args", "path": [{"at": 0, "key": 1}]})",
        R"({"root": "args", "path": [{"attribute": 1}]})",
        R"({"root": "args", "path": [{"at": 0.5}]})"}) {
    const Json json = parse_json(text, "test");
    EXPECT_THROW((void)locator_from_json(JsonView(json)), ValueError) << text;
  }
}

TEST(TypesJson, NamesOrNumbers) {
  EXPECT_EQ(to_json(DType::Float32), "float32");
  EXPECT_EQ(to_json(static_cast<DType>(99)), 99);
  for (int number = -128; number < 128; ++number) {
    const Json dtype = to_json(static_cast<DType>(number));
    const Json device = to_json(static_cast<DeviceType>(number));
    const Json layout = to_json(static_cast<Layout>(number));
    EXPECT_EQ(dtype_from_json(JsonView(dtype)), static_cast<DType>(number));
    EXPECT_EQ(device_type_from_json(JsonView(device)), static_cast<DeviceType>(number));
    EXPECT_EQ(layout_from_json(JsonView(layout)), static_cast<Layout>(number));
  }
  for (const Json& wrong : {Json(200), Json("float31"), Json(), Json(1.5)}) {
    EXPECT_THROW((void)dtype_from_json(JsonView(wrong)), ValueError) << wrong;
  }
}

void expect_round_trip(const CallTree& tree) {
  const Json json = reread(to_json(tree));
  const CallTree back = call_tree_from_json(JsonView(json));
  EXPECT_EQ(back.kind(), tree.kind());
  for (const bool strict : {false, true}) {
    EXPECT_EQ(CallKey(back, strict), CallKey(tree, strict)) << json;
  }
  EXPECT_EQ(back.tensor_locators(), tree.tensor_locators());
  EXPECT_EQ(back.constant_locators(), tree.constant_locators());
  EXPECT_EQ(back.opaque_locators(), tree.opaque_locators());
  EXPECT_EQ(back.tensor_order(), tree.tensor_order());
  EXPECT_EQ(back.canonical_order(), tree.canonical_order());
  EXPECT_EQ(to_json(back), json);
}

TEST(CallTreeJson, RandomTreesRoundTrip) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    RandomValue random(seed);
    CallTree tree;
    const Arguments call = random.arguments(4);
    flatten(call, tree);
    expect_round_trip(tree);
    const Value result = random.value(4);
    flatten(result, tree);
    expect_round_trip(tree);
  }
}

TEST(CallTreeJson, RoundTripsWhatValuesDoNotHave) {
  const std::int64_t sizes[] = {2, 3};
  TensorView view{.sizes = sizes,
                  .rank = 2,
                  .dtype = static_cast<DType>(77),
                  .device = DeviceType::Cuda,
                  .device_index = 3,
                  .layout = Layout::SparseCsr,
                  .requires_grad = true};
  CallTree tree(CallTree::Kind::Result);
  tree.open(NodeKind::Object, intern("m.\xff"));
  tree.step_index(-7);
  tree.add_tensor(view);
  tree.step_attribute("x");
  tree.add_opaque(intern("m.Holder"));
  tree.step_key(Constant::real(NAN));
  tree.add_opaque(intern(std::string(300, 'T')));
  tree.close();
  tree.finish();
  expect_round_trip(tree);
  const Json json = to_json(tree);
  const CallTree back = call_tree_from_json(JsonView(json));
  EXPECT_EQ(back.tensors()[0].device_index, 3);
  EXPECT_TRUE(back.tensors()[0].requires_grad);
  EXPECT_EQ(back.tensors()[0].sizes, nullptr);
  EXPECT_EQ(*back.nodes()[0].type, "m.\xff");
}

TEST(CallTreeJson, IsReadableText) {
  CallTree tree;
  const Arguments call{.positional = {Tensor::zeros(DType::Float32, {2, 3})},
                       .named = {{"scale", 0.5}}};
  flatten(call, tree);
  EXPECT_EQ(to_json(tree).dump(),
            R"({"kind":"call","nodes":[{"tuple":1},)"
            R"({"at":0,"tensor":{"device":"cpu","dtype":"float32","layout":"strided","rank":2}},)"
            R"({"dict":1},{"constant":0.5,"key":"scale"}]})");
}

TEST(CallTreeJson, RefusesWhatIsNoTree) {
  const auto call = [](const std::string& nodes) {
    return R"({"kind": "call", "nodes": [)" + nodes + "]}";
  };
  const auto result = [](const std::string& nodes) {
    return R"({"kind": "result", "nodes": [)" + nodes + "]}";
  };
  const std::string tensor =
      R"({"tensor": {"rank": 2, "dtype": "float32", "device": "cpu", "layout": "strided"}})";
  const std::vector<std::pair<std::string, std::string>> rows{
      {"[]", "/: expected an object"},
      {R"({"kind": "call"})", "'nodes' is missing"},
      {R"({"kind": "calls", "nodes": []})", "/kind"},
      {R"({"kind": "call", "nodes": [], "more": 1})", "'more' is unknown"},
      {R"({"kind": "call", "nodes": {}})", "/nodes: expected an array"},
      {call(""), "/nodes"},
      {result(""), "/nodes"},
      {call(R"({"tuple": 0})"), "/nodes"},
      {call(R"({"dict": 0}, {"tuple": 0})"), "/nodes/0"},
      {call(R"({"tuple": 0}, {"dict": 0}, {"dict": 0})"), "/nodes/2"},
      {call(R"({"tuple": 0}, {"dict": 1}, {"key": 5, "constant": 1})"),
       "/nodes: an argument is named 5"},
      {call(
           R"({"tuple": 0}, {"dict": 2}, {"key": "a", "constant": 1}, {"key": "a", "constant": 1})"),
       "/nodes: the argument 'a' is given twice"},
      {result(tensor + "," + tensor), "/nodes/1"},
      {result("5"), "/nodes/0: expected an object"},
      {result("{}"), "/nodes/0"},
      {result(R"({"constant": 1, "list": 0})"), "/nodes/0"},
      {result(R"({"at": 0, "constant": 1})"), "/nodes/0"},
      {result(R"({"list": 1}, {"constant": 1})"), "/nodes/1"},
      {result(R"({"list": 1}, {"at": 1, "constant": 1})"), "/nodes/1"},
      {result(R"({"list": 1}, {"at": 0, "key": "a", "constant": 1})"), "/nodes/1"},
      {result(R"({"list": 1}, {"key": "a", "constant": 1})"), "/nodes/1"},
      {result(R"({"dict": 1}, {"attribute": "a", "constant": 1})"), "/nodes/1"},
      {result(R"({"list": 2}, {"at": 0, "constant": 1})"), "1 children are missing"},
      {result(R"({"list": 4000001})"), "/nodes/0/list"},
      {result(R"({"list": -1})"), "/nodes/0/list"},
      {result(R"({"list": 0.5})"), "/nodes/0/list"},
      {result(R"({"list": 18446744073709551615})"), "/nodes/0/list"},
      {result(R"({"list": 0}, {"at": 0, "constant": 1})"), "/nodes/1"},
      {result(R"({"object": "m.T"})"), "/nodes/0"},
      {result(R"({"object": 5, "children": 0})"), "/nodes/0/object"},
      {result(R"({"object": {"hex": "x"}, "children": 0})"), "/nodes/0/object/hex"},
      {result(R"({"object": "m.T", "tensor": 1})"), "/nodes/0"},
      {result(R"({"opaque": ")" + std::string(5000, 'x') + "\"}"), "/nodes/0/opaque"},
      {result(R"({"set": 0})"), "'set' is unknown"},
      {result(R"({"tensor": {"rank": 2, "dtype": "float32", "device": "cpu"}})"),
       "/nodes/0/tensor: the member 'layout'"},
      {result(
           R"({"tensor": {"rank": -1, "dtype": "float32", "device": "cpu", "layout": "strided"}})"),
       "tensor/rank"},
      {result(
           R"({"tensor": {"rank": 2147483647, "dtype": "float32", "device": "cpu", "layout": "strided"}})"),
       "tensor/rank"},
      {result(R"({"tensor": {"rank": 2, "dtype": "f32", "device": "cpu", "layout": "strided"}})"),
       "tensor/dtype"},
  };
  for (const auto& [text, expected] : rows) {
    EXPECT_THAT(message_of([&] { (void)tree_of(text); }), HasSubstr(expected)) << text;
  }
}

TEST(CallTreeJson, NestsToTheLimitAndNoDeeper) {
  const auto nested = [](std::uint32_t depth) {
    std::string text = R"({"kind": "result", "nodes": [{"list": 1})";
    for (std::uint32_t i = 1; i < depth; ++i) {
      text += R"(,{"at": 0, "list": 1})";
    }
    return text + R"(,{"at": 0, "constant": null}]})";
  };
  EXPECT_EQ(tree_of(nested(CallTree::kMaxDepth)).nodes().size(), CallTree::kMaxDepth + 1);
  EXPECT_THAT(message_of([&] { (void)tree_of(nested(CallTree::kMaxDepth + 1)); }),
              StartsWith("/nodes/1000: containers nest deeper"));
}

}  // namespace
}  // namespace graphtune
