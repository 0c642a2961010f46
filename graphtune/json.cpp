#include "graphtune/json.h"

#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graphtune/digest.h"
#include "graphtune/error.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

// Far beyond any tensor; what reads a tree may allocate for every axis.
constexpr std::int64_t kMaxRank = 1024;
constexpr std::size_t kMaxTypeName = 4096;

void put_step(Json& json, const Step& step) {
  switch (step.kind) {
    case Step::Kind::Index:
      json["at"] = step.index;
      return;
    case Step::Kind::Key:
      json["key"] = to_json(step.key);
      return;
    case Step::Kind::Attribute:
      json["attribute"] = to_json(step.key);
      return;
  }
}

std::optional<Step> find_step(const JsonView& json) {
  Step step;
  if (const auto index = json.find("at")) {
    return Step::at(index->integer(std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max()));
  }
  if (const auto key = json.find("key")) {
    return Step::of_key(constant_from_json(*key));
  }
  if (const auto name = json.find("attribute")) {
    step.kind = Step::Kind::Attribute;
    step.key = constant_from_json(*name);
    if (step.key.kind() != Constant::Kind::String) {
      name->fail("expected an attribute's name");
    }
    return step;
  }
  return std::nullopt;
}

template <typename T>
Json named_or_number(T value) {
  const std::string_view name = to_string(value);
  return name == "unknown" ? Json(static_cast<std::int64_t>(value)) : Json(name);
}

template <typename T>
T value_or_number(const JsonView& json, T (*from_string)(std::string_view)) {
  if (json.json().is_number()) {
    return static_cast<T>(json.integer(std::numeric_limits<std::int8_t>::min(),
                                       std::numeric_limits<std::int8_t>::max()));
  }
  try {
    return from_string(json.string());
  } catch (const ValueError& error) {
    json.fail(error.what());
  }
}

Json tensor_to_json(const TensorView& tensor) {
  Json json{{"rank", tensor.rank},
            {"dtype", to_json(tensor.dtype)},
            {"device", to_json(tensor.device)},
            {"layout", to_json(tensor.layout)}};
  if (tensor.device_index != -1) {
    json["device_index"] = tensor.device_index;
  }
  if (tensor.requires_grad) {
    json["requires_grad"] = true;
  }
  return json;
}

TensorView tensor_from_json(const JsonView& json) {
  json.allow_only({"rank", "dtype", "device", "layout", "device_index", "requires_grad"});
  TensorView tensor;
  tensor.rank = static_cast<std::int32_t>(json.at("rank").integer(0, kMaxRank));
  tensor.dtype = dtype_from_json(json.at("dtype"));
  tensor.device = device_type_from_json(json.at("device"));
  tensor.layout = layout_from_json(json.at("layout"));
  if (const auto index = json.find("device_index")) {
    tensor.device_index =
        static_cast<std::int8_t>(index->integer(-1, std::numeric_limits<std::int8_t>::max()));
  }
  if (const auto requires_grad = json.find("requires_grad")) {
    tensor.requires_grad = requires_grad->boolean();
  }
  return tensor;
}

Json type_to_json(const std::string& name) {
  return is_utf8(name) ? Json(name) : Json{{"hex", to_hex(name)}};
}

const std::string* type_from_json(const JsonView& json) {
  if (!json.json().is_object()) {
    return intern(json.string(kMaxTypeName));
  }
  json.allow_only({"hex"});
  const JsonView hex = json.at("hex");
  try {
    return intern(from_hex(hex.string(2 * kMaxTypeName)));
  } catch (const ValueError& error) {
    hex.fail(error.what());
  }
}

void put_node(Json& json, const CallTree& tree, const Node& node) {
  switch (node.kind) {
    case NodeKind::Tensor:
      json["tensor"] = tensor_to_json(tree.tensors()[node.leaf]);
      return;
    case NodeKind::Constant:
      json["constant"] = to_json(tree.constants()[node.leaf]);
      return;
    case NodeKind::Opaque:
      json["opaque"] = type_to_json(*node.type);
      return;
    case NodeKind::Object:
      json["object"] = type_to_json(*node.type);
      json["children"] = node.child_count;
      return;
    case NodeKind::List:
    case NodeKind::Tuple:
    case NodeKind::Dict:
      json[container_name(node.kind)] = node.child_count;
      return;
  }
}

/// Builds a tree node by node; the tree checks what it is given, this adds where that came from.
class TreeReader {
 public:
  explicit TreeReader(CallTree::Kind kind) : tree_(kind) {}

  void read(const JsonView& json) {
    json.allow_only({"at", "key", "attribute", "tensor", "constant", "opaque", "object", "children",
                     "list", "tuple", "dict"});
    const std::optional<Step> step = find_step(json);
    // A step and a content; an object has its count of children beside its type.
    const std::size_t expected = (step ? 2U : 1U) + (json.find("object") ? 1U : 0U);
    if (json.json().size() != expected) {
      json.fail("expected one step (none for a root) and one content");
    }
    if (step) {
      tree_.step(*step);
    }
    read_content(json);
    close_complete();
  }

  CallTree finish(const JsonView& json) {
    if (!missing_.empty()) {
      json.fail(fmt::format("the nodes end while {} children are missing", missing_.back()));
    }
    build(json, [&] { tree_.finish(); });
    return std::move(tree_);
  }

 private:
  template <typename Function>
  void build(const JsonView& json, const Function& function) {
    try {
      function();
    } catch (const ValueError& error) {
      json.fail(error.what());
    }
  }

  void read_content(const JsonView& json) {
    if (const auto object = json.find("object")) {
      open(json, NodeKind::Object, type_from_json(*object), json.at("children"));
    } else if (const auto tensor = json.find("tensor")) {
      const TensorView view = tensor_from_json(*tensor);
      build(json, [&] { tree_.add_tensor(view); });
      count_child();
    } else if (const auto constant = json.find("constant")) {
      Constant value = constant_from_json(*constant);
      build(json, [&] { tree_.add_constant(std::move(value)); });
      count_child();
    } else if (const auto opaque = json.find("opaque")) {
      const std::string* type = type_from_json(*opaque);
      build(json, [&] { tree_.add_opaque(type); });
      count_child();
    } else {
      for (const NodeKind kind : {NodeKind::List, NodeKind::Tuple, NodeKind::Dict}) {
        if (const auto count = json.find(container_name(kind))) {
          open(json, kind, nullptr, *count);
          return;
        }
      }
      json.fail("expected a tensor, constant, opaque, object, list, tuple or dict");
    }
  }

  void open(const JsonView& json, NodeKind kind, const std::string* type, const JsonView& count) {
    const std::int64_t children = count.integer(0, CallTree::kMaxNodes);
    build(json, [&] { tree_.open(kind, type); });
    count_child();
    missing_.push_back(children);
  }

  void count_child() {
    if (!missing_.empty()) {
      --missing_.back();
    }
  }

  void close_complete() {
    while (!missing_.empty() && missing_.back() == 0) {
      tree_.close();
      missing_.pop_back();
    }
  }

  CallTree tree_;
  std::vector<std::int64_t> missing_;  // children of the open containers, still to come
};

}  // namespace

Json to_json(const Step& step) {
  Json json;
  put_step(json, step);
  return json;
}

Step step_from_json(const JsonView& json) {
  json.allow_only({"at", "key", "attribute"});
  std::optional<Step> step = find_step(json);
  if (!step || json.json().size() != 1) {
    json.fail("expected one of \"at\", \"key\" and \"attribute\"");
  }
  return *std::move(step);
}

Json to_json(const Locator& locator) {
  Json path = Json::array();
  for (const Step& step : locator.steps()) {
    path.push_back(to_json(step));
  }
  return {{"root", root_name(locator.root())}, {"path", std::move(path)}};
}

Locator locator_from_json(const JsonView& json) {
  json.allow_only({"root", "path"});
  const JsonView path = json.at("path");
  if (path.size() > CallTree::kMaxDepth + 1) {
    path.fail(fmt::format("more than {} steps", CallTree::kMaxDepth + 1));
  }
  std::vector<Step> steps;
  for (const JsonView& step : path.items()) {
    steps.push_back(step_from_json(step));
  }
  const JsonView name = json.at("root");
  for (const Root root : {Root::Args, Root::Kwargs, Root::Outputs}) {
    if (name.string() == root_name(root)) {
      return {root, std::move(steps)};
    }
  }
  name.fail("expected \"args\", \"kwargs\" or \"outputs\"");
}

Json to_json(DType dtype) { return named_or_number(dtype); }
Json to_json(DeviceType device) { return named_or_number(device); }
Json to_json(Layout layout) { return named_or_number(layout); }

DType dtype_from_json(const JsonView& json) { return value_or_number(json, &dtype_from_string); }

DeviceType device_type_from_json(const JsonView& json) {
  return value_or_number(json, &device_type_from_string);
}

Layout layout_from_json(const JsonView& json) { return value_or_number(json, &layout_from_string); }

Json to_json(const CallTree& tree) {
  Json nodes = Json::array();
  for (std::uint32_t id = 0; id < tree.nodes().size(); ++id) {
    Json node;
    if (!tree.is_root(id)) {
      put_step(node, tree.step_of(id));
    }
    put_node(node, tree, tree.nodes()[id]);
    nodes.push_back(std::move(node));
  }
  return {{"kind", tree.kind() == CallTree::Kind::Inputs ? "call" : "result"},
          {"nodes", std::move(nodes)}};
}

CallTree call_tree_from_json(const JsonView& json) {
  json.allow_only({"kind", "nodes"});
  const JsonView kind = json.at("kind");
  const bool is_call = kind.string() == "call";
  if (!is_call && kind.string() != "result") {
    kind.fail("expected \"call\" or \"result\"");
  }
  const JsonView nodes = json.at("nodes");
  TreeReader reader(is_call ? CallTree::Kind::Inputs : CallTree::Kind::Result);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    reader.read(nodes.at(i));
  }
  return reader.finish(nodes);
}

}  // namespace graphtune
