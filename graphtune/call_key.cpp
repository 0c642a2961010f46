#include "graphtune/call_key.h"

#include "graphtune/byte_writer.h"
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

class Encoder {
 public:
  Encoder(const CallTree& tree, bool strict, std::string& out)
      : tree_(tree), strict_(strict), out_(out) {}

  void encode() {
    out_.byte(static_cast<std::uint8_t>(tree_.kind()));
    const std::vector<Node>& nodes = tree_.nodes();
    if (tree_.is_canonical()) {
      for (std::uint32_t id = 0; id < nodes.size(); ++id) {
        encode_node(nodes[id], is_root(id));
      }
    } else {
      for (const std::uint32_t id : tree_.canonical_order()) {
        encode_node(nodes[id], is_root(id));
      }
    }
    out_.finish();
  }

 private:
  [[nodiscard]] bool is_root(std::uint32_t id) const noexcept {
    return id == 0 || (tree_.kind() == CallTree::Kind::Inputs && id == tree_.nodes()[0].end);
  }

  void encode_node(const Node& node, bool root) {
    const bool strict_constant = strict_ && node.kind == NodeKind::Constant;
    const unsigned kind = strict_constant ? kStrictConstant : static_cast<unsigned>(node.kind);
    const unsigned step = root ? kNoStep : static_cast<unsigned>(node.step);
    out_.byte(static_cast<std::uint8_t>(kind | step << kStepShift));
    if (!root) {
      if (node.step == Step::Kind::Index) {
        out_.varint(zigzag(node.index));
      } else {
        tree_.keys()[node.key].encode(out_);
      }
    }
    switch (node.kind) {
      case NodeKind::Tensor: {
        const TensorView& tensor = tree_.tensors()[node.leaf];
        out_.byte(static_cast<std::uint8_t>(tensor.dtype));
        out_.byte(static_cast<std::uint8_t>(tensor.device));
        out_.byte(static_cast<std::uint8_t>(tensor.layout));
        out_.varint(static_cast<std::uint32_t>(tensor.rank));
        return;
      }
      case NodeKind::Constant:
        if (strict_constant) {
          tree_.constants()[node.leaf].encode(out_);
        }
        return;
      case NodeKind::Opaque:
        out_.text(*node.type);
        return;
      case NodeKind::Object:
        out_.text(*node.type);
        break;
      case NodeKind::List:
      case NodeKind::Tuple:
      case NodeKind::Dict:
        break;
    }
    out_.varint(node.child_count);
  }

  const CallTree& tree_;
  bool strict_;
  ByteWriter out_;
};

}  // namespace

CallKey::CallKey(const CallTree& tree, bool strict) { assign(tree, strict); }

CallKey::CallKey(std::string bytes) : bytes_(std::move(bytes)), hash_(hash_bytes(bytes_)) {}

void CallKey::assign(const CallTree& tree, bool strict) {
  bytes_.clear();
  Encoder(tree, strict, bytes_).encode();
  hash_ = hash_bytes(bytes_);
}

}  // namespace graphtune
