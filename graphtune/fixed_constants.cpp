#include "graphtune/fixed_constants.h"

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

/// Calls `function(node id, constant)` in canonical order until it returns true.
template <typename Function>
bool any_constant(const CallTree& tree, const Function& function) {
  const std::span<const Node> nodes = tree.nodes();
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const std::uint32_t id = tree.node_at(i);
    if (nodes[id].kind == NodeKind::Constant && function(id, tree.constants()[nodes[id].leaf])) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Constant> canonical_constants(const CallTree& tree) {
  std::vector<Constant> constants;
  any_constant(tree, [&](std::uint32_t, const Constant& constant) {
    constants.push_back(constant);
    return false;
  });
  return constants;
}

FixedConstants::FixedConstants(const CallTree& tree, std::span<const std::uint32_t> unused) {
  for (Constant& constant : canonical_constants(tree)) {
    items_.push_back({std::move(constant), false});
  }
  for (const std::uint32_t place : unused) {
    if (place >= items_.size()) {
      throw ValueError(
          fmt::format("there is no constant {}: the call has {}", place, items_.size()));
    }
    items_[place].any_value = true;
  }
}

std::optional<Miss> FixedConstants::check(const CallTree& tree) const {
  std::optional<Miss> miss;
  std::size_t place = 0;
  any_constant(tree, [&](std::uint32_t id, const Constant& constant) {
    if (place == items_.size()) {
      throw ValueError("the call has more constants than its graph");
    }
    const Item& item = items_[place++];
    if (item.any_value
            ? constant.kind() == item.value.kind() && constant.type_name() == item.value.type_name()
            : constant == item.value) {
      return false;
    }
    miss = Miss{MissReason::Constant,
                fmt::format("{} is {} ({}), the engines have {} ({}) built in. Record calls with "
                            "this value in strict mode, where each value is a graph, or call "
                            "eagerly: miss policy 'eager'.",
                            tree.locator_of(id).to_string(), constant.display(),
                            constant.type_name(), item.value.display(), item.value.type_name())};
    return true;
  });
  return miss;
}

}  // namespace graphtune
