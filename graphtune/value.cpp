#include "graphtune/value.h"

#include <algorithm>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {

struct Value::SharedContainer {
  Container container;
  const std::string* type;  // interned; null for plain containers
  std::uint32_t depth;  // of containers, this one included: bounds the recursion of whoever walks
                        // or destroys it
};

namespace {

constexpr std::size_t kMaxListed = 20;

void check_steps(const Container& container) {
  for (std::size_t i = 0; i < container.children.size(); ++i) {
    const Step& step = container.children[i].first;
    const bool fits =
        container.kind == NodeKind::Object ||
        (container.kind == NodeKind::Dict
             ? step.kind == Step::Kind::Key
             : step.kind == Step::Kind::Index && step.index == static_cast<std::int64_t>(i));
    if (!fits) {
      throw ValueError(fmt::format(
          "child {} of a {} has the step {}: a list or tuple needs 0, 1, 2 …, a dict needs keys", i,
          container_name(container.kind), Locator(Root::Outputs, {step}).shown()));
    }
  }
}

void check_repeated_keys(const Container& container) {
  std::vector<const Constant*> keys;
  keys.reserve(container.children.size());
  for (const auto& [step, child] : container.children) {
    keys.push_back(&step.key);
  }
  const auto less = [](const Constant* a, const Constant* b) { return *a < *b; };
  const auto equal = [](const Constant* a, const Constant* b) { return *a == *b; };
  std::sort(keys.begin(), keys.end(), less);
  const auto twice = std::adjacent_find(keys.begin(), keys.end(), equal);
  if (twice != keys.end()) {
    throw ValueError(fmt::format("the key {} is given twice in one dict", (*twice)->repr()));
  }
}

Value indexed(NodeKind kind, std::vector<Value> items) {
  Container container;
  container.kind = kind;
  container.children.reserve(items.size());
  for (Value& item : items) {
    container.children.emplace_back(Step::at(static_cast<std::int64_t>(container.children.size())),
                                    std::move(item));
  }
  return Value::container(std::move(container));
}

template <typename Key>
Value keyed(std::vector<std::pair<Key, Value>> items) {
  Container container;
  container.kind = NodeKind::Dict;
  container.children.reserve(items.size());
  for (auto& [key, item] : items) {
    if constexpr (std::is_same_v<Key, Constant>) {
      container.children.emplace_back(Step::of_key(std::move(key)), std::move(item));
    } else {
      container.children.emplace_back(Step::of_key(Constant::string(key)), std::move(item));
    }
  }
  check_repeated_keys(container);
  return Value::container(std::move(container));
}

/// "'a', 'b', … (3 in all)"
std::string list_steps(const Container& container) {
  std::string text;
  for (std::size_t i = 0; i < std::min(container.children.size(), kMaxListed); ++i) {
    const Step& step = container.children[i].first;
    text += i == 0 ? "" : ", ";
    text += step.kind == Step::Kind::Index ? fmt::format("{}", step.index) : step.key.repr();
  }
  if (container.children.size() > kMaxListed) {
    text += fmt::format(", … ({} in all)", container.children.size());
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

Value Value::list(std::vector<Value> items) { return indexed(NodeKind::List, std::move(items)); }

Value Value::tuple(std::vector<Value> items) { return indexed(NodeKind::Tuple, std::move(items)); }

Value Value::dict(std::vector<std::pair<Constant, Value>> items) { return keyed(std::move(items)); }

Value Value::dict(std::vector<std::pair<std::string, Value>> items) {
  return keyed(std::move(items));
}

Value Value::object(std::string type, std::vector<std::pair<Step, Value>> children) {
  return container({NodeKind::Object, std::move(type), std::move(children)});
}

Value Value::container(Container container) {
  const std::string* type = container.type.empty() ? nullptr : intern(container.type);
  return Value::container(std::move(container), type);
}

Value Value::container(Container container, const std::string* type) {
  if (container.kind < NodeKind::List ||
      (container.kind == NodeKind::Object) == container.type.empty()) {
    throw ValueError(
        "a container is a list, tuple or dict without a type name, or an object with one");
  }
  check_steps(container);
  std::uint32_t depth = 0;
  for (const auto& [step, child] : container.children) {
    if (const auto* inner = std::get_if<std::shared_ptr<const SharedContainer>>(&child.data_)) {
      depth = std::max(depth, (*inner)->depth);
    }
  }
  if (depth >= CallTree::kMaxDepth) {
    throw ValueError(fmt::format("containers nest deeper than {} levels", CallTree::kMaxDepth));
  }
  Value value;
  value.data_ = std::make_shared<const SharedContainer>(
      SharedContainer{std::move(container), type, depth + 1});
  return value;
}

bool Value::is_none() const noexcept {
  const auto* constant = std::get_if<Constant>(&data_);
  return constant != nullptr && constant->kind() == Constant::Kind::None;
}

bool Value::is_container() const noexcept {
  return std::holds_alternative<std::shared_ptr<const SharedContainer>>(data_);
}

std::string Value::description() const {
  if (is_tensor()) {
    return "a tensor";
  }
  if (is_constant()) {
    return fmt::format("{} ({})", constant().display(), constant().type_name());
  }
  const Container& own = container();
  return own.type.empty() ? fmt::format("a {}", container_name(own.kind))
                          : fmt::format("an object of {}", own.type);
}

const Tensor& Value::tensor() const {
  if (const auto* tensor = std::get_if<Tensor>(&data_)) {
    return *tensor;
  }
  throw TypeError(fmt::format("a tensor was asked for, but the value is {}", description()));
}

const Constant& Value::constant() const {
  if (const auto* constant = std::get_if<Constant>(&data_)) {
    return *constant;
  }
  throw TypeError(fmt::format("a constant was asked for, but the value is {}", description()));
}

const Container& Value::container() const {
  if (const auto* shared = std::get_if<std::shared_ptr<const SharedContainer>>(&data_)) {
    return (*shared)->container;
  }
  throw TypeError(fmt::format("a container was asked for, but the value is {}", description()));
}

std::size_t Value::size() const { return container().children.size(); }

const Value& Value::operator[](std::string_view name) const {
  const Container& own = container();
  for (const auto& [step, child] : own.children) {
    if (step.kind != Step::Kind::Index && step.key.kind() == Constant::Kind::String &&
        step.key.text() == name && step.key.is_complete()) {
      return child;
    }
  }
  throw ValueError(fmt::format("{} has no '{}': it has {}", description(), name, list_steps(own)));
}

const Value& Value::at(std::size_t index) const {
  const Container& own = container();
  if (index >= own.children.size()) {
    throw ValueError(fmt::format("{} has {} children, there is none at {}", description(),
                                 own.children.size(), index));
  }
  return own.children[index].second;
}

class ValueFlattener {
 public:
  explicit ValueFlattener(CallTree& tree) : tree_(tree) {}

  /// Not deeper than CallTree::kMaxDepth calls: values are not made deeper.
  void add(const Value& value) {
    if (const auto* tensor = std::get_if<Tensor>(&value.data_)) {
      if (!tensor->defined()) {
        throw ValueError(
            "a tensor argument is undefined (a default-made Tensor): give it data or pass None");
      }
      tree_.add_tensor() = tensor->view();
    } else if (const auto* constant = std::get_if<Constant>(&value.data_)) {
      tree_.add_constant(*constant);
    } else {
      const auto& shared = *std::get<std::shared_ptr<const Value::SharedContainer>>(value.data_);
      tree_.open(shared.container.kind, shared.type);
      for (const auto& [step, child] : shared.container.children) {
        tree_.step(step);
        add(child);
      }
      tree_.close();
    }
  }

 private:
  CallTree& tree_;
};

void flatten(const Arguments& arguments, CallTree& tree) {
  tree.clear(CallTree::Kind::Inputs);
  ValueFlattener flattener(tree);
  tree.open(NodeKind::Tuple);
  std::int64_t index = 0;
  for (const Value& value : arguments.positional) {
    tree.step_index(index++);
    flattener.add(value);
  }
  tree.close();
  tree.open(NodeKind::Dict);
  for (const auto& [name, value] : arguments.named) {
    tree.step_key(std::string_view(name));
    flattener.add(value);
  }
  tree.close();
  tree.finish();
}

void flatten(const Value& result, CallTree& tree) {
  tree.clear(CallTree::Kind::Result);
  ValueFlattener(tree).add(result);
  tree.finish();
}

/// Builds values from a tree, each tensor once.
class Unflattener {
 public:
  Unflattener(const CallTree& tree, std::vector<Tensor> tensors)
      : tree_(tree), tensors_(std::move(tensors)) {
    if (tensors_.size() != tree.tensors().size()) {
      throw ValueError(fmt::format("{} tensors given for a structure of {}", tensors_.size(),
                                   tree.tensors().size()));
    }
    if (!tree.is_canonical()) {
      std::vector<Tensor> in_call_order(tensors_.size());
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        in_call_order[tree.tensor_order()[i]] = std::move(tensors_[i]);
      }
      tensors_ = std::move(in_call_order);
    }
  }

  /// Not deeper than CallTree::kMaxDepth calls: trees are not deeper.
  Value value(std::uint32_t id) {
    const Node& node = tree_.nodes()[id];
    switch (node.kind) {
      case NodeKind::Tensor:
        return std::move(tensors_[node.leaf]);
      case NodeKind::Constant:
        return tree_.constants()[node.leaf];
      case NodeKind::Opaque:
        throw ValueError(fmt::format(
            "an object of {} at {} can't be made again: graphtune kept only its type name",
            *node.type, tree_.locator_of(id).shown()));
      case NodeKind::List:
      case NodeKind::Tuple:
      case NodeKind::Dict:
      case NodeKind::Object:
        break;
    }
    Container container;
    container.kind = node.kind;
    container.type = node.type == nullptr ? "" : *node.type;
    container.children.reserve(node.child_count);
    for (std::uint32_t child = id + 1; child < node.end; child = tree_.nodes()[child].end) {
      container.children.emplace_back(tree_.step_of(child), value(child));
    }
    // The tree's types are interned: looking one up takes a lock.
    return Value::container(std::move(container), node.type);
  }

 private:
  const CallTree& tree_;
  std::vector<Tensor> tensors_;
};

Value unflatten(const CallTree& tree, std::vector<Tensor> tensors) {
  if (tree.kind() != CallTree::Kind::Result || tree.nodes().empty()) {
    throw ValueError("unflatten needs the tree of a result");
  }
  return Unflattener(tree, std::move(tensors)).value(0);
}

Arguments unflatten_arguments(const CallTree& tree, std::vector<Tensor> tensors) {
  if (tree.kind() != CallTree::Kind::Inputs || tree.nodes().empty()) {
    throw ValueError("unflatten_arguments needs the tree of a call");
  }
  Unflattener unflattener(tree, std::move(tensors));
  const std::span<const Node> nodes = tree.nodes();
  Arguments arguments;
  for (std::uint32_t id = 1; id < nodes[0].end; id = nodes[id].end) {
    arguments.positional.push_back(unflattener.value(id));
  }
  const std::uint32_t named = nodes[0].end;
  for (std::uint32_t id = named + 1; id < nodes[named].end; id = nodes[id].end) {
    const Constant& name = tree.keys()[nodes[id].key];
    if (name.kind() != Constant::Kind::String || !name.is_complete()) {
      throw ValueError(fmt::format("{} is no name of an argument", name.repr()));
    }
    arguments.named.emplace_back(name.text(), unflattener.value(id));
  }
  return arguments;
}

}  // namespace graphtune
