// Where the leaves of a call tree are, and how they are called.
#include <algorithm>
#include <unordered_map>

#include "graphtune/call_tree.h"

namespace graphtune {
namespace {

/// Gives each name once. Names that occur literally are never given to others: `reserve` all of
/// them first.
class UniqueNames {
 public:
  void reserve(const std::string& name) { next_suffix_.try_emplace(name, 1); }

  std::string take(std::string name) {
    std::uint32_t& suffix = next_suffix_.at(name);
    if (suffix == 1) {
      suffix = 2;
      return name;
    }
    std::string unique;
    do {
      unique = name + "__" + std::to_string(suffix++);
    } while (next_suffix_.contains(unique));
    return unique;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> next_suffix_;  // 1: not taken yet
};

}  // namespace

Root CallTree::root_of(std::uint32_t node) const noexcept {
  if (kind_ == Kind::Result) {
    return Root::Outputs;
  }
  return node < nodes_[0].end ? Root::Args : Root::Kwargs;
}

Step CallTree::step_of(std::uint32_t node) const {
  const Node& n = nodes_[node];
  Step step;
  step.kind = n.step;
  step.index = n.index;
  if (n.step != Step::Kind::Index) {
    step.key = keys_[n.key];
  }
  return step;
}

Locator CallTree::locator_of(std::uint32_t node) const {
  std::vector<Step> steps;
  std::uint32_t ancestor = kind_ == Kind::Inputs && node >= nodes_[0].end ? nodes_[0].end : 0;
  while (ancestor != node) {
    std::uint32_t child = ancestor + 1;
    while (nodes_[child].end <= node) {
      child = nodes_[child].end;
    }
    steps.push_back(step_of(child));
    ancestor = child;
  }
  return {root_of(node), std::move(steps)};
}

/// Calls function(node, path) for each node of `kind`; the path holds the nodes below the root that
/// lead there.
template <typename Function>
void CallTree::for_each_path(NodeKind kind, const Function& function) const {
  std::vector<std::uint32_t> path;
  for (std::uint32_t id = 0; id < nodes_.size(); ++id) {
    while (!path.empty() && nodes_[path.back()].end <= id) {
      path.pop_back();
    }
    if (!is_root(id)) {
      path.push_back(id);
    }
    if (nodes_[id].kind == kind) {
      function(id, path);
    }
  }
}

std::vector<Locator> CallTree::locators_of(NodeKind kind, std::size_t count) const {
  std::vector<Locator> locators;
  locators.reserve(count);
  for_each_path(kind, [&](std::uint32_t id, const std::vector<std::uint32_t>& path) {
    std::vector<Step> steps;
    steps.reserve(path.size());
    for (const std::uint32_t node : path) {
      steps.push_back(step_of(node));
    }
    locators.emplace_back(root_of(id), std::move(steps));
  });
  return locators;
}

std::vector<Locator> CallTree::tensor_locators() const {
  return locators_of(NodeKind::Tensor, tensors_.size());
}

std::vector<Locator> CallTree::constant_locators() const {
  return locators_of(NodeKind::Constant, constants_.size());
}

std::vector<Locator> CallTree::opaque_locators() const {
  return locators_of(NodeKind::Opaque, opaques_.size());
}

CallTree::LeafNames CallTree::leaf_names() const {
  std::vector<std::string> names(nodes_.size());  // of leaves, by node
  UniqueNames unique;
  std::string prefix;
  std::vector<std::pair<std::uint32_t, std::size_t>>
      open;  // where a container ends, and how long the prefix is there
  for (std::uint32_t id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    while (!open.empty() && open.back().first <= id) {
      open.pop_back();
    }
    if (open.empty()) {
      prefix = root_name(root_of(id));
    } else {
      prefix.resize(open.back().second);
      append_step_name(prefix, node.step, node.index,
                       node.step == Step::Kind::Index ? Constant() : keys_[node.key]);
    }
    if (node.kind >= NodeKind::List) {
      open.emplace_back(node.end, prefix.size());
    } else {
      names[id] = prefix;
      unique.reserve(prefix);
    }
  }
  LeafNames leaves;
  leaves.tensors.resize(tensors_.size());
  leaves.constants.resize(constants_.size());
  leaves.opaques.resize(opaques_.size());
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const std::uint32_t id = canonical_.empty() ? i : canonical_[i];
    const Node& node = nodes_[id];
    if (node.kind >= NodeKind::List) {
      continue;
    }
    std::vector<std::string>& names_of_kind = node.kind == NodeKind::Tensor     ? leaves.tensors
                                              : node.kind == NodeKind::Constant ? leaves.constants
                                                                                : leaves.opaques;
    names_of_kind[node.leaf] = unique.take(std::move(names[id]));
  }
  return leaves;
}

}  // namespace graphtune
