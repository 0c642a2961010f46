#include "graphtune/call_key.h"

#include <array>

#include "graphtune/byte_cursor.h"
#include "graphtune/hash.h"

namespace graphtune {
namespace {

// Each node is one byte (kind and step), the step's key, and what its kind needs. Every part is
// prefix-free and containers say how many children follow, so that two trees have the same bytes
// only if they are the same graph.
constexpr std::uint8_t kStrictConstant = 7;  // a kind that NodeKind has not: followed by the value
constexpr unsigned kStepShift = 3;
constexpr std::uint8_t kNoStep = 3;

static_assert(static_cast<std::uint8_t>(NodeKind::Object) < kStrictConstant);
static_assert(static_cast<std::uint8_t>(Step::Kind::Attribute) < kNoStep);

std::uint64_t zigzag(std::int64_t value) noexcept {
  return (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63);
}

/// What identity needs of a tensor: rank, dtype, device type and layout.
std::uint64_t tensor_facts(const TensorView& tensor) noexcept {
  const auto byte = [](auto value) { return std::uint64_t{static_cast<std::uint8_t>(value)}; };
  return static_cast<std::uint32_t>(tensor.rank) | byte(tensor.dtype) << 32 |
         byte(tensor.device) << 40 | byte(tensor.layout) << 48;
}

/// Writes one node; needs CallTree's kNodeBound and the bounds of its key, its value and its type
/// name.
ByteCursor encode_node(ByteCursor out, const CallTree& tree, const Node& node, bool is_root,
                       bool strict) {
  const bool has_value = strict && node.kind == NodeKind::Constant;
  const unsigned kind = has_value ? kStrictConstant : static_cast<unsigned>(node.kind);
  const unsigned step = is_root ? kNoStep : static_cast<unsigned>(node.step);
  out.byte(static_cast<std::uint8_t>(kind | step << kStepShift));
  if (step == static_cast<unsigned>(Step::Kind::Index)) {
    out.varint(zigzag(node.index));
  } else if (!is_root) {
    out = tree.keys()[node.key].encode(out);
  }
  switch (node.kind) {
    case NodeKind::Tensor:
      out.fixed64(tensor_facts(tree.tensors()[node.leaf]));
      return out;
    case NodeKind::Constant:
      if (has_value) {
        out = tree.constants()[node.leaf].encode(out);
      }
      return out;
    case NodeKind::Opaque:
      out.text(*node.type);
      return out;
    case NodeKind::Object:
      out.text(*node.type);
      break;
    case NodeKind::List:
    case NodeKind::Tuple:
    case NodeKind::Dict:
      break;
  }
  out.varint(node.child_count);
  return out;
}

/// Writes at most tree.key_bound() bytes and returns how many.
std::size_t encode(const CallTree& tree, bool strict, char* target) {
  ByteCursor out(target);
  out.byte(static_cast<std::uint8_t>(tree.kind()));
  const std::span<const Node> nodes = tree.nodes();
  const std::uint32_t second_root =
      tree.kind() == CallTree::Kind::Inputs && !nodes.empty() ? nodes[0].end : 0;
  const auto encode_at = [&](std::uint32_t id) {
    out = encode_node(out, tree, nodes[id], id == 0 || id == second_root, strict);
  };
  if (tree.is_canonical()) {
    for (std::uint32_t id = 0; id < nodes.size(); ++id) {
      encode_at(id);
    }
  } else {
    for (const std::uint32_t id : tree.canonical_order()) {
      encode_at(id);
    }
  }
  return static_cast<std::size_t>(out.position() - target);
}

}  // namespace

CallKey::CallKey(const CallTree& tree, bool strict) { assign(tree, strict); }

CallKey::CallKey(std::string bytes) : bytes_(std::move(bytes)), hash_(hash_bytes(bytes_)) {}

void CallKey::assign(const CallTree& tree, bool strict) {
  // Few calls need more, and a string would fill its new bytes with zeros first.
  std::array<char, 2048> buffer;
  if (tree.key_bound() <= buffer.size()) {
    bytes_.assign(buffer.data(), encode(tree, strict, buffer.data()));
  } else {
    bytes_.resize(tree.key_bound());
    bytes_.resize(encode(tree, strict, bytes_.data()));
  }
  hash_ = hash_bytes(bytes_);
}

}  // namespace graphtune
