#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graphtune/constant.h"
#include "graphtune/locator.h"
#include "graphtune/tensor.h"

namespace graphtune {

enum class NodeKind : std::uint8_t { Tensor, Constant, Opaque, List, Tuple, Dict, Object };

/// One node of a flattened call. Containers are followed by their children (pre-order).
struct Node {
  NodeKind kind = NodeKind::Constant;
  Step::Kind step = Step::Kind::Index;  ///< how the parent reaches this node
  std::uint32_t key = 0;                ///< Key, Attribute: index of the key in CallTree::keys()
  std::int64_t index = 0;               ///< Index: the index
  std::uint32_t leaf = 0;               ///< index into tensors(), constants() or opaque type names
  std::uint32_t end = 0;                ///< one past the last node of this subtree
  std::uint32_t child_count = 0;
  const std::string* type = nullptr;  ///< Object, Opaque: interned type name; also subclasses of dict, list …
};

/// A call (or a result) as flat tokens and leaves. Both Python objects and C++ Values are flattened to it, and
/// everything after it (key, router, metadata) is shared.
///
/// Nodes stand in the caller's order; the canonical order, in which dict children are sorted by key, decides identity
/// and the order of an engine's tensors. An input tree has two roots, a Tuple of positional and a Dict of keyword
/// arguments; a result has one.
///
/// Tensors are borrowed views: a tree is valid while the call's tensors are (see detach()).
class GRAPHTUNE_API CallTree {
 public:
  /// Deeper nesting and more nodes than these are refused with ValueError.
  static constexpr std::uint32_t kMaxDepth = 1000;
  static constexpr std::uint32_t kMaxNodes = 20'000'000;

  enum class Kind : std::uint8_t { Inputs, Result };
  explicit CallTree(Kind kind = Kind::Inputs) : kind_(kind) {}

  // Building, in the caller's order: open a container, add its children (each after its step), close it. For Inputs:
  // open(Tuple) … close(), open(Dict) … close(). finish() once at the end.
  void step_index(std::int64_t index) noexcept;
  void step_key(const Constant& key);
  void step_attribute(const std::string* interned_name);
  /// Throws ValueError naming the locator beyond kMaxDepth or kMaxNodes.
  void open(NodeKind kind, const std::string* type = nullptr);
  void close();
  void add_tensor(const TensorView& tensor);
  void add_constant(Constant constant);
  void add_opaque(const std::string* type);
  void finish();
  /// Empties the tree, keeping its memory for the next call.
  void clear(Kind kind);

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] const std::vector<Node>& nodes() const noexcept { return nodes_; }
  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const std::vector<Constant>& constants() const noexcept { return constants_; }
  [[nodiscard]] const std::vector<Constant>& keys() const noexcept { return keys_; }
  /// Type names of opaque leaves, in the caller's order.
  [[nodiscard]] const std::vector<const std::string*>& opaques() const noexcept { return opaques_; }

  /// True when the caller's order is the canonical one.
  [[nodiscard]] bool is_canonical() const noexcept { return canonical_.empty(); }
  /// Node indices in canonical order; empty when that is 0, 1, 2 … (is_canonical()).
  [[nodiscard]] const std::vector<std::uint32_t>& canonical_order() const noexcept { return canonical_; }
  /// Tensor indices in canonical order: tensor_order()[i] is the caller's index of the engine's i-th tensor.
  /// Empty when the caller's order is canonical.
  [[nodiscard]] const std::vector<std::uint32_t>& tensor_order() const noexcept { return tensor_order_; }

  /// The path to node `node`. Linear in the depth times the fan-out: for messages and tables.
  [[nodiscard]] Locator locator_of(std::uint32_t node) const;
  /// Locators of all tensors / constants / opaque leaves, in the caller's order; linear in the number of nodes.
  [[nodiscard]] std::vector<Locator> tensor_locators() const;
  [[nodiscard]] std::vector<Locator> constant_locators() const;
  [[nodiscard]] std::vector<Locator> opaque_locators() const;
  /// Names of all leaves by kind, unique within the tree: where two paths would give the same name, the one later in
  /// canonical order gets a suffix `__2`, `__3` …
  struct LeafNames {
    std::vector<std::string> tensors;
    std::vector<std::string> constants;
    std::vector<std::string> opaques;
  };
  [[nodiscard]] LeafNames leaf_names() const;

  /// Forgets the borrowed pointers (data, sizes, strides); rank, dtype, device and layout stay.
  void detach() noexcept;

 private:
  friend struct CallTreeJson;
  std::uint32_t add_node(NodeKind kind, const std::string* type, std::uint32_t leaf);
  void sort_into_canonical_order();

  Kind kind_;
  bool sorted_ = true;
  Step::Kind next_step_ = Step::Kind::Index;
  std::int64_t next_index_ = 0;
  std::uint32_t next_key_ = 0;
  std::vector<Node> nodes_;
  std::vector<TensorView> tensors_;
  std::vector<Constant> constants_;
  std::vector<Constant> keys_;
  std::vector<const std::string*> opaques_;
  std::vector<std::uint32_t> open_;  // stack of open containers
  std::vector<std::uint32_t> last_key_;  // per open Dict-like container: the previous child's key, to see if sorted
  std::vector<std::uint32_t> canonical_;
  std::vector<std::uint32_t> tensor_order_;
};

}  // namespace graphtune
