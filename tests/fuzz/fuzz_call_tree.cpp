// Any bytes as calls of the tree's builder, and as the JSON of a tree. Either is refused with
// ValueError or gives a tree that can be named, keyed, written as JSON and read back the same.
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "graphtune/call_key.h"
#include "graphtune/error.h"
#include "graphtune/json.h"
#include "graphtune/value.h"

namespace {

using namespace graphtune;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }

  std::uint8_t byte() {
    if (rest_.empty()) {
      return 0;
    }
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }

  std::string_view text() {
    const std::string_view text = rest_.substr(0, byte() % 16);
    rest_.remove_prefix(std::min(text.size(), rest_.size()));
    return text;
  }

  std::int64_t integer() {
    std::uint64_t value = 0;
    for (int i = byte() % 9; i > 0; --i) {
      value = value << 8 | byte();
    }
    return static_cast<std::int64_t>(value);
  }

  Constant constant() {
    switch (byte() % 8) {
      case 0:
        return Constant::none();
      case 1:
        return Constant::boolean(byte() % 2 != 0);
      case 2:
        return Constant::integer(integer());
      case 3:
        return Constant::real(std::bit_cast<double>(integer()));
      case 4:
        return Constant::string(text());
      case 5:
        return Constant::bytes(std::string(300, 'x').append(text()));
      case 6:
        return Constant::big_integer("0x1" + std::string(16U + byte() % 2 * 300U, '0') + "f");
      default:
        return Constant::other("m.T", text(), text());
    }
  }

  /// One of few types: each new name stays in memory until the process ends.
  const std::string* type() { return intern(std::string("m.T") + std::to_string(byte() % 4)); }

 private:
  std::string_view rest_;
};

TensorView any_tensor(Bytes& bytes) {
  TensorView tensor;
  tensor.rank = bytes.byte() % 8;
  tensor.dtype = static_cast<DType>(bytes.byte());
  tensor.device = static_cast<DeviceType>(bytes.byte());
  tensor.layout = static_cast<Layout>(bytes.byte());
  return tensor;
}

void apply_one(CallTree& tree, Bytes& bytes, std::int64_t& next_index) {
  switch (bytes.byte() % 12) {
    case 0:
      tree.step_index(bytes.integer());
      return;
    case 1:
    case 2:
      tree.step_index(next_index++);
      return;
    case 3:
      tree.step_key(bytes.constant());
      return;
    case 4:
      tree.step_key(bytes.text());
      return;
    case 5:
      tree.step_attribute(bytes.text());
      return;
    case 6: {
      const auto kind = static_cast<NodeKind>(bytes.byte() % 7);
      tree.open(kind, kind == NodeKind::Object ? bytes.type() : nullptr);
      next_index = 0;
      return;
    }
    case 7:
      tree.close();
      return;
    case 8:
      tree.add_tensor(any_tensor(bytes));
      return;
    case 9:
      tree.add_constant(bytes.constant());
      return;
    case 10:
      tree.add_opaque(bytes.type());
      return;
    default:
      // Many lists within each other, which single calls would hardly reach.
      for (int i = bytes.byte() * 8; i > 0; --i) {
        tree.step_index(0);
        tree.open(NodeKind::List);
      }
      return;
  }
}

bool build(CallTree& tree, Bytes bytes) {
  std::int64_t next_index = 0;
  try {
    while (!bytes.empty()) {
      apply_one(tree, bytes, next_index);
    }
    tree.finish();
  } catch (const ValueError&) {
    return false;
  }
  return true;
}

void check(const CallTree& tree) {
  const CallTree::LeafNames names = tree.leaf_names();
  require(names.tensors.size() == tree.tensors().size());
  require(tree.tensor_locators().size() == tree.tensors().size());
  require(tree.is_canonical() || tree.canonical_order().size() == tree.nodes().size());
  require(tree.is_canonical() || tree.tensor_order().size() == tree.tensors().size());
  const std::string text = to_json(tree).dump();
  const Json json = parse_json(text, "written");
  const CallTree back = call_tree_from_json(JsonView(json));
  for (const bool strict : {false, true}) {
    const CallKey key(tree, strict);
    require(key.bytes().size() <= tree.key_bound());
    require(key == CallKey(back, strict));
  }
  require(to_json(back).dump() == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 4 == 0) {
    try {
      const Json json = parse_json(text, "input");
      check(call_tree_from_json(JsonView(json)));
    } catch (const ValueError&) {
      // Refused: as good.
    }
    return 0;
  }
  static CallTree tree;  // used again and again, as on the call path
  const bool is_call = data[0] % 4 == 1;
  tree.clear(is_call ? CallTree::Kind::Inputs : CallTree::Kind::Result);
  if (is_call) {
    tree.open(NodeKind::Tuple);
  }
  if (build(tree, Bytes(data + 1, size - 1))) {
    check(tree);
  }
  return 0;
}
