#include "bindings/argument_change.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "bindings/tensor_access.h"
#include "graphtune/call_key.h"
#include "graphtune/hash.h"

namespace graphtune::python {
namespace {

bool is_container(NodeKind kind) {
  return kind == NodeKind::List || kind == NodeKind::Tuple || kind == NodeKind::Dict ||
         kind == NodeKind::Object;
}

/// Whether a node is itself the same in both trees; its children are nodes of their own.
bool is_same_node(const Walker& before, const Walker& after, std::size_t index) {
  const CallTree& a = before.tree();
  const CallTree& b = after.tree();
  const Node& old_node = a.nodes()[index];
  const Node& new_node = b.nodes()[index];
  if (old_node.kind != new_node.kind || old_node.child_count != new_node.child_count) {
    return false;
  }
  const auto i = static_cast<std::uint32_t>(index);
  if (!a.is_root(i)) {
    if (old_node.step != new_node.step || old_node.index != new_node.index) {
      return false;
    }
    if (old_node.step != Step::Kind::Index && !(a.keys()[old_node.key] == b.keys()[new_node.key])) {
      return false;
    }
  }
  switch (old_node.kind) {
    case NodeKind::Tensor:
      return identity_of(before.tensors()[old_node.leaf].get()) ==
             identity_of(after.tensors()[new_node.leaf].get());
    case NodeKind::Constant:
      return a.constants()[old_node.leaf] == b.constants()[new_node.leaf];
    default:
      return old_node.type == new_node.type;  // interned
  }
}

/// The first node that differs; the number of nodes when none does.
std::size_t first_difference(const Walker& before, const Walker& after) {
  const std::size_t count = std::min(before.tree().nodes().size(), after.tree().nodes().size());
  std::size_t index = 0;
  while (index < count && is_same_node(before, after, index)) {
    ++index;
  }
  return index;
}

/// The innermost container that holds a node; the node itself when it is one.
std::uint32_t container_of(const CallTree& tree, std::size_t index) {
  auto node = static_cast<std::uint32_t>(index);
  if (is_container(tree.nodes()[node].kind)) {
    return node;
  }
  while (tree.nodes()[node].end <= index || !is_container(tree.nodes()[node].kind)) {
    --node;
  }
  return node;
}

std::string type_of(const Node& node) {
  switch (node.kind) {
    case NodeKind::List:
      return "list";
    case NodeKind::Tuple:
      return "tuple";
    case NodeKind::Dict:
      return "dict";
    default:
      return *node.type;
  }
}

std::size_t canonical_tensor(const CallTree& tree, std::size_t index) {
  return tree.is_canonical() ? index : tree.tensor_order()[index];
}

}  // namespace

bool holds_containers(const CallTree& call) {
  const std::span<const Node> nodes = call.nodes();
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const NodeKind kind = nodes[i].kind;
    if (is_container(kind) && kind != NodeKind::Tuple && !call.is_root(i)) {
      return true;
    }
  }
  return false;
}

bool is_changed(const Walker& before, const Walker& after) {
  const std::size_t count = before.tree().nodes().size();
  return count != after.tree().nodes().size() || first_difference(before, after) != count;
}

std::uint64_t key_of_change(const Walker& before, const Walker& after) {
  // Canonical order: two calls of one graph may have their keys in another one.
  std::unordered_map<const void*, std::uint64_t> places;
  for (std::size_t i = 0; i < before.tensors().size(); ++i) {
    const std::size_t index = canonical_tensor(before.tree(), i);
    places.emplace(identity_of(before.tensors()[index].get()), i + 1);
  }
  std::vector<std::uint64_t> parts{CallKey(after.tree(), true).hash()};
  for (std::size_t i = 0; i < after.tensors().size(); ++i) {
    const std::size_t index = canonical_tensor(after.tree(), i);
    const auto found = places.find(identity_of(after.tensors()[index].get()));
    parts.push_back(found == places.end() ? 0 : found->second);
  }
  const std::uint64_t key = hash_bytes(
      {reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(std::uint64_t)});
  return key == 0 ? 1 : key;
}

ArgumentChange describe_change(const Walker& before, const Walker& after) {
  const std::size_t index = first_difference(before, after);
  const CallTree& tree = before.tree();
  const std::uint32_t node =
      container_of(tree, std::min<std::size_t>(index, tree.nodes().size() - 1));
  return {key_of_change(before, after), tree.locator_of(node).shown(), type_of(tree.nodes()[node])};
}

}  // namespace graphtune::python
