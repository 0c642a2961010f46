#include "graphtune/call_tree.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

constexpr std::size_t kMaxShownSteps = 8;
// Below this many children an insertion sort is faster than std::sort.
constexpr std::ptrdiff_t kFewChildren = 24;

bool is_container(NodeKind kind) noexcept { return kind >= NodeKind::List; }

}  // namespace

void CallTree::step_index(std::int64_t index) noexcept {
  next_step_ = NextStep::Index;
  next_index_ = index;
}

void CallTree::step_key(const Constant& key) {
  next_key_ = static_cast<std::uint32_t>(keys_.size());
  keys_.add() = key;
  text_bound_ += key.encoded_bound();
  next_step_ = NextStep::Key;
}

void CallTree::step_key(std::string_view key) {
  next_key_ = static_cast<std::uint32_t>(keys_.size());
  Constant& slot = keys_.add();
  slot.assign_string(key);
  text_bound_ += slot.encoded_bound();
  next_step_ = NextStep::Key;
}

void CallTree::step_attribute(std::string_view name) {
  step_key(name);
  next_step_ = NextStep::Attribute;
}

void CallTree::step(const Step& step) {
  if (step.kind == Step::Kind::Index) {
    step_index(step.index);
    return;
  }
  step_key(step.key);
  next_step_ = static_cast<NextStep>(step.kind);
}

// On the path of every call: one call less a node.
[[gnu::always_inline]] inline Node& CallTree::add_node(NodeKind kind) {
  const auto id = static_cast<std::uint32_t>(nodes_.size());
  if (id >= kMaxNodes) {
    throw_at_open_place("there are more than 4,000,000 values in one call");
  }
  const bool is_root = open_.empty();
  if (is_root) {
    check_root(kind);
  }
  const NextStep step = std::exchange(next_step_, NextStep::None);
  Node& node = nodes_.add();
  node.kind = kind;
  node.step = is_root ? Step::Kind::Index : static_cast<Step::Kind>(step);
  node.key = 0;
  node.index = 0;
  node.leaf = 0;
  node.end = id + 1;
  node.child_count = 0;
  node.type = nullptr;
  if (is_root) {
    return node;
  }
  OpenContainer& parent = open_.back();
  if (step == NextStep::Index) {
    const bool in_order = next_index_ == static_cast<std::int64_t>(parent.child_count);
    if (parent.kind == NodeKind::Dict || (parent.kind != NodeKind::Object && !in_order)) {
      throw_wrong_step();
    }
    node.index = next_index_;
  } else {
    if (step == NextStep::None ||
        (parent.kind == NodeKind::Dict ? step != NextStep::Key : parent.kind != NodeKind::Object)) {
      throw_wrong_step();
    }
    node.key = next_key_;
  }
  // The children of lists and tuples are in order, which has just been checked.
  if (sorted_ && parent.last_child != 0 && parent.kind >= NodeKind::Dict) {
    const int order = compare_steps(nodes_[parent.last_child], node);
    sorted_ = order <= 0;
    repeats_steps_ |= order == 0;
  }
  parent.last_child = id;
  ++parent.child_count;
  return node;
}

void CallTree::open(NodeKind kind, const std::string* type) {
  // The two roots of a call are not the caller's containers.
  const std::size_t max_open = kMaxDepth + (kind_ == Kind::Inputs ? 1 : 0);
  if (open_.size() >= max_open) {
    throw_at_open_place("containers nest deeper than 1000 levels (does one hold itself?)");
  }
  if (!is_container(kind) || (kind == NodeKind::Object) != (type != nullptr)) {
    throw ValueError("CallTree::open: a list, tuple or dict has no type name, an object needs one");
  }
  add_node(kind).type = type;
  text_bound_ += type == nullptr ? 0 : type->size();
  open_.push_back({static_cast<std::uint32_t>(nodes_.size()) - 1, 0, 0, kind});
}

void CallTree::close() {
  if (open_.empty() || next_step_ != NextStep::None) {
    throw ValueError(open_.empty() ? "CallTree::close: no container is open"
                                   : "CallTree::close: a step leads nowhere");
  }
  Node& node = nodes_[open_.back().node];
  node.end = static_cast<std::uint32_t>(nodes_.size());
  node.child_count = open_.back().child_count;
  open_.pop_back();
}

TensorView& CallTree::add_tensor() {
  add_node(NodeKind::Tensor).leaf = static_cast<std::uint32_t>(tensors_.size());
  return tensors_.emplace_back();
}

void CallTree::add_constant(Constant constant) {
  add_node(NodeKind::Constant).leaf = static_cast<std::uint32_t>(constants_.size());
  text_bound_ += constant.encoded_bound();
  constants_.add() = std::move(constant);
}

void CallTree::add_opaque(const std::string* type) {
  if (type == nullptr) {
    throw ValueError("CallTree::add_opaque: the type name is missing");
  }
  Node& node = add_node(NodeKind::Opaque);
  node.leaf = static_cast<std::uint32_t>(opaques_.size());
  node.type = type;
  text_bound_ += type->size();
  opaques_.push_back(type);
}

void CallTree::finish() {
  if (!open_.empty() || next_step_ != NextStep::None) {
    throw ValueError("CallTree::finish: a container is still open, or a step leads nowhere");
  }
  const bool complete =
      kind_ == Kind::Result ? !nodes_.empty() : !nodes_.empty() && nodes_[0].end < nodes_.size();
  if (!complete) {
    throw ValueError(
        "CallTree::finish: a call needs its positional and its keyword arguments, a result one "
        "value");
  }
  sort_into_canonical_order();
  if (kind_ == Kind::Inputs) {
    check_names();
  }
}

void CallTree::check_names() const {
  const std::uint32_t root = nodes_[0].end;
  std::vector<const Constant*> names;
  for (std::uint32_t id = root + 1; id < nodes_[root].end; id = nodes_[id].end) {
    const Constant& name = keys_[nodes_[id].key];
    if (name.kind() != Constant::Kind::String) {
      throw ValueError(fmt::format("an argument is named {}: names are strings", name.repr()));
    }
    if (repeats_steps_) {  // somewhere in the tree, perhaps here
      names.push_back(&name);
    }
  }
  const auto less = [](const Constant* a, const Constant* b) { return *a < *b; };
  const auto equal = [](const Constant* a, const Constant* b) { return *a == *b; };
  std::sort(names.begin(), names.end(), less);
  const auto twice = std::adjacent_find(names.begin(), names.end(), equal);
  if (twice != names.end()) {
    throw ValueError(fmt::format("the argument {} is given twice", (*twice)->repr()));
  }
}

void CallTree::clear(Kind kind) {
  kind_ = kind;
  sorted_ = true;
  repeats_steps_ = false;
  next_step_ = NextStep::None;
  text_bound_ = 0;
  nodes_.clear();
  tensors_.clear();
  constants_.clear();
  keys_.clear();
  opaques_.clear();
  open_.clear();
  canonical_.clear();
  tensor_order_.clear();
}

void CallTree::check_root(NodeKind kind) const {
  const bool first = nodes_.empty();
  const bool fits = kind_ == Kind::Result ? first
                    : first               ? kind == NodeKind::Tuple
                            : kind == NodeKind::Dict && nodes_[0].end == nodes_.size();
  if (!fits || next_step_ != NextStep::None) {
    throw ValueError(
        "CallTree: the roots of a call are a tuple and a dict, a result has one root; roots have "
        "no "
        "step");
  }
}

void CallTree::throw_wrong_step() {
  throw ValueError(
      "CallTree: each child needs a step: 0, 1, 2 … in a list or tuple, a key in a dict, any step "
      "in "
      "an object");
}

void CallTree::throw_at_open_place(const char* what) const {
  std::string place;  // without roots: no step leads to them
  const bool has_step = next_step_ != NextStep::None;
  const std::size_t steps = (open_.empty() ? 0 : open_.size() - 1) + (has_step ? 1 : 0);
  for (std::size_t i = 0; i < steps; ++i) {
    if (steps > kMaxShownSteps && i == kMaxShownSteps / 2) {
      place += "…";
      i = steps - kMaxShownSteps / 2;
    }
    if (i + 1 < open_.size()) {
      const std::uint32_t node = open_[i + 1].node;
      append_step(place, nodes_[node].step, nodes_[node].index, step_of(node).key);
    } else {
      const bool keyed = next_step_ != NextStep::Index;
      append_step(place, static_cast<Step::Kind>(next_step_), next_index_,
                  keyed ? keys_[next_key_] : Constant());
    }
  }
  throw ValueError(fmt::format("{}: at {}", what, place));
}

int CallTree::compare_steps(const Node& a, const Node& b) const noexcept {
  if (a.step != b.step) {
    return a.step < b.step ? -1 : 1;
  }
  if (a.step == Step::Kind::Index) {
    return static_cast<int>(a.index > b.index) - static_cast<int>(a.index < b.index);
  }
  return keys_[a.key].compare(keys_[b.key]);
}

void CallTree::sort_into_canonical_order() {
  canonical_.clear();
  tensor_order_.clear();
  if (sorted_) {
    return;
  }
  canonical_.reserve(nodes_.size());
  tensor_order_.reserve(tensors_.size());
  pending_.clear();
  if (kind_ == Kind::Inputs) {
    pending_.push_back(nodes_[0].end);
  }
  pending_.push_back(0);
  while (!pending_.empty()) {
    const std::uint32_t id = pending_.back();
    pending_.pop_back();
    canonical_.push_back(id);
    const Node& node = nodes_[id];
    if (node.kind == NodeKind::Tensor) {
      tensor_order_.push_back(node.leaf);
    } else if (node.child_count != 0) {
      const std::size_t first = pending_.size();
      for (std::uint32_t child = id + 1; child < node.end; child = nodes_[child].end) {
        pending_.push_back(child);
      }
      sort_children(first);
    }
  }
}

/// Sorts pending_[first …] by descending step: the last one is taken first.
void CallTree::sort_children(std::size_t first) {
  // Equal steps (two NaN keys) keep the caller's order.
  const auto after = [this](std::uint32_t a, std::uint32_t b) {
    const int order = compare_steps(nodes_[a], nodes_[b]);
    repeats_steps_ |= order == 0;  // equal children are compared before they can be in order
    return order != 0 ? order > 0 : a > b;
  };
  const auto begin = pending_.begin() + static_cast<std::ptrdiff_t>(first);
  std::reverse(begin, pending_.end());
  if (pending_.end() - begin > kFewChildren) {
    if (!std::is_sorted(begin, pending_.end(), after)) {
      std::sort(begin, pending_.end(), after);
    }
    return;
  }
  for (auto i = begin; i != pending_.end(); ++i) {
    const std::uint32_t child = *i;
    auto place = i;
    for (; place != begin && after(child, *(place - 1)); --place) {
      *place = *(place - 1);
    }
    *place = child;
  }
}

void CallTree::detach() noexcept {
  for (TensorView& tensor : tensors_) {
    tensor.data = nullptr;
    tensor.sizes = nullptr;
    tensor.strides = nullptr;
  }
}

}  // namespace graphtune
