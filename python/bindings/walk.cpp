#include "bindings/walk.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "bindings/tensor_access.h"
#include "graphtune/error.h"
#include "graphtune/locator.h"
#include "graphtune/utf8.h"

namespace graphtune::python {
namespace {

// Beyond this depth only every n-th container is compared with those that hold it: a container that
// holds itself is still found soon, and deep trees cost no more than flat ones.
constexpr std::size_t kEachContainerChecked = 16;
constexpr std::size_t kChecksEvery = 16;
constexpr std::size_t kMaxShownSteps = 8;

Step to_step(const ChildStep& step) {
  switch (step.kind) {
    case ChildStep::Kind::Index:
      return Step::at(step.index);
    case ChildStep::Kind::Attribute:
      if (step.attribute != nullptr) {
        return Step::attribute(*step.attribute);
      }
      break;
    case ChildStep::Kind::Key:
      break;
  }
  Constant key;
  if (step.key == nullptr || !key_constant_of(step.key, key)) {
    key = Constant::string("?");
  }
  return step.kind == ChildStep::Kind::Key ? Step::of_key(key) : Step::attribute(key.text());
}

Step to_step(const CallTree& tree, const Node& node) {
  if (node.step == Step::Kind::Index) {
    return Step::at(node.index);
  }
  const Constant& key = tree.keys()[node.key];
  return node.step == Step::Kind::Key ? Step::of_key(key) : Step::attribute(key.text());
}

bool has_only_string_keys(PyObject* dict) {
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  while (PyDict_Next(dict, &position, &key, nullptr) != 0) {
    if (!PyUnicode_CheckExact(key)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Object check_arguments(PyObject* args, PyObject* kwargs) {
  if (PyTuple_Check(args) == 0 && PyList_Check(args) == 0) {
    throw TypeError(fmt::format("args must be the tuple or list of positional arguments, not {}",
                                Py_TYPE(args)->tp_name));
  }
  if (kwargs == Py_None) {
    return {};
  }
  if (PyDict_Check(kwargs) == 0) {
    throw TypeError(fmt::format("kwargs must be the dict of keyword arguments, not {}",
                                Py_TYPE(kwargs)->tp_name));
  }
  Object named = Object::borrow(kwargs);
  if (!PyDict_CheckExact(kwargs)) {
    named = Object::steal(PyDict_New());
    if (PyDict_Update(named.get(), kwargs) != 0) {
      throw PythonError();
    }
  }
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  while (PyDict_Next(named.get(), &position, &key, nullptr) != 0) {
    if (PyUnicode_Check(key) == 0) {
      throw TypeError(
          fmt::format("kwargs must have strings as keys, not {}", Py_TYPE(key)->tp_name));
    }
  }
  return named;
}

void Walker::start(CallTree::Kind kind, Hold hold) {
  clear();
  tree_.clear(kind);
  hold_ = hold;
}

void Walker::clear() {
  // Destructors may run Python code that walks: with another walker, this one is not in the pool
  // yet.
  alive_.clear();
  tensors_.clear();
  containers_.clear();
  path_.clear();
  sizes_.clear();
  has_virtual_tensors_ = false;
  noted_ = false;
}

void Walker::walk_inputs(PyObject* args, PyObject* kwargs, const CallSignature* signature,
                         Hold hold) {
  start(CallTree::Kind::Inputs, hold);
  const Object fast = Object::steal(PySequence_Fast(args, "args must be a tuple or a list"));
  const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.get()));
  const auto argument = [&](std::size_t i) {
    return Object::borrow(PySequence_Fast_GET_ITEM(fast.get(), static_cast<Py_ssize_t>(i)));
  };
  // Those that stay positional come first.
  std::size_t positional = count;
  if (signature != nullptr) {
    positional = 0;
    while (positional < count && signature->keyword_of(positional, count) == nullptr) {
      ++positional;
    }
  }
  open(args, NodeKind::Tuple);
  for (std::size_t i = 0; i < positional; ++i) {
    const Object held = argument(i);
    add_child({.index = static_cast<Py_ssize_t>(i)}, held.get());
  }
  close();
  open(kwargs, NodeKind::Dict);
  for (std::size_t i = positional; i < count; ++i) {
    PyObject* name = signature->keyword_of(i, count);
    if (kwargs != nullptr && PyDict_Contains(kwargs, name) == 1) {
      Object memory;
      throw TypeError(fmt::format("the argument {} is given twice: by position and by name",
                                  shorten_middle(python_repr(text_of(name, memory)))));
    }
    const Object held = argument(i);
    add_argument(name, held.get(), signature);
  }
  if (kwargs != nullptr) {
    for_each_item(kwargs, [&](const ChildStep& step, PyObject* value) {
      add_argument(step.key, value, signature);
    });
  }
  close();
  tree_.finish();
}

void Walker::walk_result(PyObject* result, Hold hold) {
  start(CallTree::Kind::Result, hold);
  step_ = {};
  add(result);
  tree_.finish();
}

void Walker::add_argument(PyObject* name, PyObject* argument, const CallSignature* signature) {
  if (signature != nullptr) {
    const Constant* default_value = signature->default_of(name);
    Constant value;
    if (default_value != nullptr && constant_of(argument, value) && value == *default_value) {
      return;
    }
  }
  add_child({.kind = ChildStep::Kind::Key, .key = name}, argument);
}

void Walker::add_child(const ChildStep& child_step, PyObject* child) {
  step(child_step);
  step_ = child_step;
  add(child);
}

void Walker::step(const ChildStep& child_step) {
  switch (child_step.kind) {
    case ChildStep::Kind::Index:
      tree_.step_index(child_step.index);
      return;
    case ChildStep::Kind::Attribute: {
      if (child_step.attribute != nullptr) {
        tree_.step_attribute(child_step.attribute);
        return;
      }
      if (PyUnicode_Check(child_step.key) == 0) {
        throw TypeError(fmt::format("an attribute's name must be a str, not {}",
                                    Py_TYPE(child_step.key)->tp_name));
      }
      Object memory;
      tree_.step_attribute(text_of(child_step.key, memory));
      return;
    }
    case ChildStep::Kind::Key:
      step_key(child_step.key);
      return;
  }
}

void Walker::step_key(PyObject* key) {
  if (PyUnicode_CheckExact(key)) {
    Object memory;
    tree_.step_key(text_of(key, memory));
    return;
  }
  Constant constant;
  if (!key_constant_of(key, constant)) {
    throw TypeError(fmt::format("a key of type {} has no value that graphtune could compare",
                                Py_TYPE(key)->tp_name));
  }
  tree_.step_key(constant);
}

void Walker::add(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  switch (builtin_kind(type)) {
    case TypeKind::List:
      open(object, NodeKind::List);
      for_each_element(object,
                       [this](const ChildStep& step, PyObject* child) { add_child(step, child); });
      close();
      return;
    case TypeKind::Tuple:
      open(object, NodeKind::Tuple);
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
        add_child({.index = i}, PyTuple_GET_ITEM(object, i));
      }
      close();
      return;
    case TypeKind::Dict:
      add_dict(object);
      return;
    case TypeKind::Opaque:
      if (is_tensor_type(type)) {
        add_tensor(object);
        return;
      }
      break;
    default: {
      Constant constant;
      if (constant_of(object, constant)) {  // which holds for the builtin types
        tree_.add_constant(std::move(constant));
      }
      return;
    }
  }
  const ChildStep here = step_;
  const std::shared_ptr<const TypeInfo> info = find_type(type);
  try {
    add_typed(*info, object);
  } catch (const PythonError&) {
    if (!noted_) {  // else an inner object has told a longer locator
      noted_ = true;
      step_ = here;
      std::size_t open_count = 0;
      while (open_count < path_.size() && path_[open_count].object != object) {
        ++open_count;
      }
      const std::string where = place(open_count);
      add_note_to_error(fmt::format("while graphtune read the {} at {}", *info->name,
                                    where.empty() ? "the root" : where));
    }
    throw;
  }
}

void Walker::add_tensor(PyObject* tensor) {
  TensorView view;
  const TensorState state = view_of(tensor, view);
  if (state == TensorState::Foreign) {
    tree_.add_opaque(find_type(Py_TYPE(tensor))->name);
    return;
  }
  has_virtual_tensors_ = has_virtual_tensors_ || state == TensorState::Virtual;
  if (hold_ == Hold::Copy) {
    if (view.rank > 0 && view.sizes != nullptr) {
      view.sizes = sizes_.copy({view.sizes, static_cast<std::size_t>(view.rank)});
    }
    view.data = nullptr;
    view.strides = nullptr;
  }
  tree_.add_tensor(view);
  tensors_.push_back(Object::borrow(tensor));
}

void Walker::add_dict(PyObject* dict) {
  if (!has_only_string_keys(dict)) {
    add_dict_with_any_keys(dict);
    return;
  }
  open(dict, NodeKind::Dict);
  for_each_item(dict, [this](const ChildStep& step, PyObject* child) { add_child(step, child); });
  close();
}

void Walker::add_dict_with_any_keys(PyObject* dict) {
  // Keys first: a dict with a key that can't be compared by value is opaque as a whole.
  Constant key;
  bool comparable = true;
  for_each_item(dict, [&](const ChildStep& step, PyObject*) {
    comparable = comparable && key_constant_of(step.key, key);
  });
  if (!comparable) {
    tree_.add_opaque(intern("dict with keys that can't be compared by value"));
    return;
  }
  open(dict, NodeKind::Dict);
  for_each_item(dict, [this](const ChildStep& step, PyObject* child) { add_child(step, child); });
  close();
}

void Walker::add_typed(const TypeInfo& info, PyObject* object) {
  Flattening parts;
  switch (info.kind) {
    case TypeKind::Constant: {
      Constant constant;
      if (constant_of(object, constant)) {
        tree_.add_constant(std::move(constant));
      } else {
        tree_.add_opaque(info.name);
      }
      return;
    }
    case TypeKind::Flattened:
      check_contains_itself(object);
      if (!flatten_object(info, object, parts)) {
        tree_.add_opaque(info.name);
        return;
      }
      break;
    case TypeKind::Named:
    case TypeKind::Fields:
    case TypeKind::Namespace:
    case TypeKind::Mapping:
    case TypeKind::Sequence:
      break;
    default:
      tree_.add_opaque(info.name);
      return;
  }
  open(object, NodeKind::Object, info.name);
  if (parts.context) {
    Object memory;
    tree_.step_key(Constant::other(kContextType, text_of(parts.context.get(), memory)));
    tree_.open(NodeKind::Tuple);
    tree_.close();
  }
  for_each_child(info, object, parts, alive_,
                 [this](const ChildStep& step, PyObject* child) { add_child(step, child); });
  close();
}

void Walker::open(PyObject* object, NodeKind kind, const std::string* type) {
  check_contains_itself(object);
  const auto node = static_cast<std::uint32_t>(tree_.nodes().size());
  tree_.open(kind, type);
  path_.push_back({object, node});
  if (keeps_containers_ && path_.size() > 1) {
    containers_.push_back({node, Object::borrow(object)});
  }
}

void Walker::close() {
  tree_.close();
  path_.pop_back();
}

void Walker::check_contains_itself(PyObject* object) {
  if (path_.size() > kEachContainerChecked && path_.size() % kChecksEvery != 0) {
    return;
  }
  for (std::size_t i = 0; i < path_.size(); ++i) {
    if (path_[i].object == object && object != nullptr) {
      const std::string outer = place(i);
      throw ValueError(fmt::format(
          "the {} at {} contains itself: it is met again at {}. graphtune, as torch.export, needs "
          "arguments and "
          "results that are trees",
          Py_TYPE(object)->tp_name, outer.empty() ? "the root" : outer, place(path_.size())));
    }
  }
}

PyObject* Walker::container_at(std::uint32_t canonical_node) const {
  if (canonical_node < tree_.nodes().size()) {
    const std::uint32_t node = tree_.node_at(canonical_node);
    const auto found =
        std::lower_bound(containers_.begin(), containers_.end(), node,
                         [](const Container& c, std::uint32_t wanted) { return c.node < wanted; });
    if (found != containers_.end() && found->node == node) {
      return found->object.get();
    }
  }
  throw ValueError(fmt::format("the call has no container at node {}", canonical_node));
}

/// The locator of the `open_count`-th open container; of the object that is being added when there
/// are no more.
std::string Walker::place(std::size_t open_count) const {
  const bool inputs = tree_.kind() == CallTree::Kind::Inputs;
  std::vector<Step> steps;
  // The root of a result, or one of the two of a call, has no step.
  for (std::size_t i = 1; i < std::min(open_count + 1, path_.size()); ++i) {
    steps.push_back(to_step(tree_, tree_.nodes()[path_[i].node]));
  }
  if (open_count >= path_.size() && !path_.empty()) {
    steps.push_back(to_step(step_));
  }
  std::string tail;
  if (steps.size() > kMaxShownSteps) {
    tail = "…" + Locator(Root::Outputs, {steps.end() - kMaxShownSteps / 2, steps.end()}).shown();
    steps.resize(kMaxShownSteps / 2);
  }
  return Locator(inputs ? Root::Args : Root::Outputs, std::move(steps)).shown() + tail;
}

}  // namespace graphtune::python
