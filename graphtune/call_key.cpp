#include "graphtune/call_key.h"

#include <array>

#include "graphtune/byte_cursor.h"
#include "graphtune/hash.h"

namespace graphtune {
namespace {

// Each node is one word: a byte for kind and step, three for a tensor's facts, four for its rank or
// the count of children. Then its index, its key or its attribute, its value, its type name. Every
// part is prefix-free and containers say how many children follow, so that two trees have the same
// bytes only if they are the same graph.
constexpr std::uint8_t kStrictConstant = 7;  // a kind that NodeKind has not: followed by the value
constexpr unsigned kStepShift = 3;
constexpr std::uint8_t kNoStep = 3;

static_assert(static_cast<std::uint8_t>(NodeKind::Object) < kStrictConstant);
static_assert(static_cast<std::uint8_t>(Step::Kind::Attribute) < kNoStep);

/// What identity needs of a tensor: dtype, device type, layout and rank.
std::uint64_t tensor_facts(const TensorView& tensor) noexcept {
  const auto byte = [](auto value) { return std::uint64_t{static_cast<std::uint8_t>(value)}; };
  return byte(tensor.dtype) << 8 | byte(tensor.device) << 16 | byte(tensor.layout) << 24 |
         std::uint64_t{static_cast<std::uint32_t>(tensor.rank)} << 32;
}

/// Needs room for CallTree's kNodeBound and the bounds of the node's key, value and type name.
[[gnu::always_inline]] inline ByteCursor encode_node(ByteCursor out, const CallTree& tree,
                                                     const Node& node, bool is_root, bool strict) {
  const bool has_value = strict && node.kind == NodeKind::Constant;
  const std::uint64_t kind = has_value ? kStrictConstant : static_cast<std::uint64_t>(node.kind);
  const std::uint64_t step = is_root ? kNoStep : static_cast<std::uint64_t>(node.step);
  const std::uint64_t facts = node.kind == NodeKind::Tensor
                                  ? tensor_facts(tree.tensors()[node.leaf])
                                  : std::uint64_t{node.child_count} << 32;
  out.fixed64(kind | step << kStepShift | facts);
  if (step == static_cast<std::uint64_t>(Step::Kind::Index)) {
    out.fixed64(static_cast<std::uint64_t>(node.index));
  } else if (!is_root) {
    out = tree.keys()[node.key].encode(out);
  }
  if (has_value) {
    out = tree.constants()[node.leaf].encode(out);
  } else if (node.type != nullptr) {
    out.text(*node.type);
  }
  return out;
}

/// Writes at most tree.key_bound() bytes and returns how many.
std::size_t encode(const CallTree& tree, bool strict, char* target) {
  ByteCursor out(target);
  out.byte(static_cast<std::uint8_t>(tree.kind()));
  const std::span<const Node> nodes = tree.nodes();
  const std::uint32_t second_root =
      tree.kind() == CallTree::Kind::Inputs && !nodes.empty() ? nodes[0].end : 0;
  if (tree.is_canonical()) {
    for (std::uint32_t id = 0; id < nodes.size(); ++id) {
      out = encode_node(out, tree, nodes[id], id == 0 || id == second_root, strict);
    }
  } else {
    for (const std::uint32_t id : tree.canonical_order()) {
      out = encode_node(out, tree, nodes[id], id == 0 || id == second_root, strict);
    }
  }
  return static_cast<std::size_t>(out.position() - target);
}

}  // namespace

CallKey::CallKey(const CallTree& tree, bool strict) { assign(tree, strict); }

CallKey::CallKey(std::string bytes) : bytes_(std::move(bytes)), hash_(hash_bytes(bytes_)) {}

void CallKey::assign(const CallTree& tree, bool strict) {
  // Few calls need more, and a string would fill its new bytes with zeros first.
  std::array<char, 2048> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  if (tree.key_bound() <= buffer.size()) {
    bytes_.assign(buffer.data(), encode(tree, strict, buffer.data()));
  } else {
    bytes_.resize(tree.key_bound());
    bytes_.resize(encode(tree, strict, bytes_.data()));
  }
  hash_ = hash_bytes(bytes_);
}

}  // namespace graphtune
