#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graphtune/constant.h"
#include "graphtune/locator.h"
#include "graphtune/tensor.h"

namespace graphtune {

enum class NodeKind : std::uint8_t { Tensor, Constant, Opaque, List, Tuple, Dict, Object };

/// "list", "tuple" or "dict"; "object" for all else.
[[nodiscard]] constexpr std::string_view container_name(NodeKind kind) noexcept {
  switch (kind) {
    case NodeKind::List:
      return "list";
    case NodeKind::Tuple:
      return "tuple";
    case NodeKind::Dict:
      return "dict";
    case NodeKind::Tensor:
    case NodeKind::Constant:
    case NodeKind::Opaque:
    case NodeKind::Object:
      break;
  }
  return "object";
}

/// One node of a flattened call. Containers are followed by their children (pre-order).
struct Node {
  NodeKind kind = NodeKind::Constant;
  Step::Kind step = Step::Kind::Index;  ///< how the parent reaches this node
  std::uint32_t key = 0;                ///< Key, Attribute: index of the key in CallTree::keys()
  std::int64_t index = 0;               ///< Index: the index
  std::uint32_t leaf = 0;               ///< index into tensors(), constants() or opaque type names
  std::uint32_t end = 0;                ///< one past the last node of this subtree
  std::uint32_t child_count = 0;
  const std::string* type =
      nullptr;  ///< Object, Opaque: interned type name; also subclasses of dict, list …
};

/// A call (or a result) as flat tokens and leaves. Both Python objects and C++ Values are flattened
/// to it, and everything after it (key, router, metadata) is shared.
///
/// Nodes stand in the caller's order; the canonical order, in which children reached by keys or
/// attributes are sorted by them, decides identity and the order of an engine's tensors. An input
/// tree has two roots, a Tuple of positional and a Dict of keyword arguments; a result has one.
///
/// Tensors are borrowed views: a tree is valid while the call's tensors are (see detach()).
class GRAPHTUNE_API CallTree {
 public:
  /// Deeper nesting (counted in containers that the caller made) and more nodes are refused with
  /// ValueError.
  static constexpr std::uint32_t kMaxDepth = 1000;
  static constexpr std::uint32_t kMaxNodes = 4'000'000;

  enum class Kind : std::uint8_t { Inputs, Result };
  explicit CallTree(Kind kind = Kind::Inputs) : kind_(kind) {}

  // Building, in the caller's order: open a container, add its children (each after its step),
  // close it. For Inputs: open(Tuple) … close(), open(Dict) … close(). finish() once at the end.
  // Children of a List or Tuple are reached by the indices 0, 1, 2 …, those of a Dict by keys,
  // those of an Object by any steps; a root has no step. What breaks these rules is refused with
  // ValueError, after which only clear() may be called.
  void step_index(std::int64_t index) noexcept;
  void step_key(const Constant& key);
  /// The same with the string `key`.
  void step_key(std::string_view key);
  void step_attribute(std::string_view name);
  void step_attribute(const std::string* name) { step_attribute(std::string_view(*name)); }
  void step(const Step& step);
  /// `type` (interned) for an Object. Throws ValueError naming the locator beyond kMaxDepth or
  /// kMaxNodes.
  void open(NodeKind kind, const std::string* type = nullptr);
  void close();
  void add_tensor(const TensorView& tensor) { add_tensor() = tensor; }
  /// The same; what is returned is to be filled before the next call of this tree. (Filling it
  /// where it lies is faster than copying a view that has just been made.)
  TensorView& add_tensor();
  void add_constant(Constant constant);
  void add_opaque(const std::string* type);
  /// Also refuses arguments whose name is no string or is given twice.
  void finish();
  /// Empties the tree, keeping its memory for the next call.
  void clear(Kind kind);

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] std::span<const Node> nodes() const noexcept { return nodes_.span(); }
  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] std::span<const Constant> constants() const noexcept { return constants_.span(); }
  [[nodiscard]] std::span<const Constant> keys() const noexcept { return keys_.span(); }
  /// Type names of opaque leaves, in the caller's order.
  [[nodiscard]] const std::vector<const std::string*>& opaques() const noexcept { return opaques_; }

  /// True when the caller's order is the canonical one.
  [[nodiscard]] bool is_canonical() const noexcept { return canonical_.empty(); }
  /// More bytes than a CallKey of this tree can have.
  [[nodiscard]] std::size_t key_bound() const noexcept {
    return text_bound_ + kNodeBound * (nodes_.size() + 1);
  }
  /// True when some container has two children at the same step (keys that are equal here, such as
  /// two NaN): these stay in the caller's order.
  [[nodiscard]] bool repeats_steps() const noexcept { return repeats_steps_; }
  /// Node indices in canonical order; empty when that is 0, 1, 2 … (is_canonical()).
  [[nodiscard]] const std::vector<std::uint32_t>& canonical_order() const noexcept {
    return canonical_;
  }
  /// Tensor indices in canonical order: tensor_order()[i] is the caller's index of the engine's
  /// i-th tensor. Empty when the caller's order is canonical.
  [[nodiscard]] const std::vector<std::uint32_t>& tensor_order() const noexcept {
    return tensor_order_;
  }

  /// The caller's index of a node, and of a tensor, given by its place in canonical order.
  [[nodiscard]] std::uint32_t node_at(std::uint32_t canonical) const noexcept {
    return canonical_.empty() ? canonical : canonical_[canonical];
  }
  [[nodiscard]] std::size_t tensor_at(std::size_t canonical) const noexcept {
    return tensor_order_.empty() ? canonical : tensor_order_[canonical];
  }

  /// The path to node `node`. Linear in the depth times the fan-out: for messages and tables.
  [[nodiscard]] Locator locator_of(std::uint32_t node) const;
  /// Locators of all tensors / constants / opaque leaves, in the caller's order; linear in the
  /// number of nodes.
  [[nodiscard]] std::vector<Locator> tensor_locators() const;
  [[nodiscard]] std::vector<Locator> constant_locators() const;
  [[nodiscard]] std::vector<Locator> opaque_locators() const;
  /// Names of all leaves by kind, unique within the tree: where two paths would give the same name,
  /// the one later in canonical order gets a suffix `__2`, `__3` …
  struct LeafNames {
    std::vector<std::string> tensors;
    std::vector<std::string> constants;
    std::vector<std::string> opaques;
  };
  [[nodiscard]] LeafNames leaf_names() const;

  /// Forgets the borrowed pointers (data, sizes, strides); rank, dtype, device and layout stay.
  void detach() noexcept;

  [[nodiscard]] bool is_root(std::uint32_t node) const noexcept {
    return node == 0 || (kind_ == Kind::Inputs && node == nodes_[0].end);
  }
  /// The step by which its parent reaches node `node`; meaningless for a root.
  [[nodiscard]] Step step_of(std::uint32_t node) const;

 private:
  /// A vector whose elements outlive clear(), with the memory that they own: a call with the same
  /// keys as the last one needs no allocation.
  template <typename T>
  class Pool {
   public:
    Pool() = default;
    ~Pool() = default;
    Pool(const Pool& other)  // only what is in use
        : items_(other.span().begin(), other.span().end()),
          size_(other.size_),
          capacity_(other.size_) {}
    Pool& operator=(const Pool& other) { return *this = Pool(other); }
    Pool(Pool&& other) noexcept { swap(other); }
    Pool& operator=(Pool&& other) noexcept {
      Pool(std::move(other)).swap(*this);
      return *this;
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::span<const T> span() const noexcept { return {items_.data(), size_}; }
    [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return items_[i]; }
    [[nodiscard]] T& operator[](std::size_t i) noexcept { return items_[i]; }
    /// An element with any old value, to be assigned to.
    T& add() {
      if (size_ == capacity_) [[unlikely]] {
        grow();
      }
      return items_[size_++];
    }
    void clear() noexcept { size_ = 0; }

   private:
    void grow() {
      items_.resize(std::max<std::size_t>(16, 2 * capacity_));
      capacity_ = items_.size();
    }
    void swap(Pool& other) noexcept {
      items_.swap(other.items_);
      std::swap(size_, other.size_);
      std::swap(capacity_, other.capacity_);
    }

    std::vector<T> items_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;  // items_.size(), which would be a division
  };

  struct OpenContainer {
    std::uint32_t node;
    std::uint32_t last_child;  // 0: none yet
    std::uint32_t child_count;
    NodeKind kind;
  };
  enum class NextStep : std::uint8_t { Index, Key, Attribute, None };

  Node& add_node(NodeKind kind);
  void check_root(NodeKind kind) const;
  void check_names() const;
  [[noreturn]] static void throw_wrong_step();
  [[noreturn]] void throw_at_open_place(const char* what) const;
  [[nodiscard]] int compare_steps(const Node& a, const Node& b) const noexcept;
  void sort_into_canonical_order();
  void sort_children(std::size_t first);
  template <typename Function>
  void for_each_path(NodeKind kind, const Function& function) const;
  [[nodiscard]] std::vector<Locator> locators_of(NodeKind kind, std::size_t count) const;
  [[nodiscard]] Root root_of(std::uint32_t node) const noexcept;

  // Of a node in a CallKey, besides keys, constants and type names: kind, index, a tensor's facts
  // or a count.
  static constexpr std::size_t kNodeBound = 24;

  Kind kind_;
  bool sorted_ = true;
  bool repeats_steps_ = false;
  NextStep next_step_ = NextStep::None;
  std::int64_t next_index_ = 0;
  std::uint32_t next_key_ = 0;
  std::size_t text_bound_ = 0;  // of keys, constants and type names in a CallKey
  Pool<Node> nodes_;
  std::vector<TensorView> tensors_;
  Pool<Constant> constants_;
  Pool<Constant> keys_;
  std::vector<const std::string*> opaques_;
  std::vector<OpenContainer> open_;
  std::vector<std::uint32_t> canonical_;
  std::vector<std::uint32_t> tensor_order_;
  std::vector<std::uint32_t> pending_;  // scratch of sort_into_canonical_order()
};

}  // namespace graphtune
