#include "bindings/argument_change.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/stub_types.h"
#include "bindings/tensor_access.h"
#include "bindings/walker_lease.h"
#include "graphtune/argument_changes.h"
#include "graphtune/call_key.h"
#include "graphtune/error.h"
#include "graphtune/hash.h"

namespace nb = nanobind;
using namespace nb::literals;

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
  return node.kind == NodeKind::Object ? *node.type : std::string(container_name(node.kind));
}

/// Throws ValueError where a form holds what can't be given to another caller.
void check_can_be_stored(const CallTree& form) {
  if (!form.opaques().empty()) {
    throw ValueError("a " + *form.opaques().front() + ", which graphtune can't look into");
  }
  for (const Constant& constant : form.constants()) {
    if (!constant.is_complete()) {
      throw ValueError("a text too long to be stored");
    }
  }
}

using Containers = nb::typed<nb::dict, int, nb::typed<nb::tuple, nb::any, nb::str>>;

Containers call_containers(const Args& args, const Kwargs& kwargs, const CallSignature* signature) {
  const WalkerLease walker;
  walker->keep_containers(true);
  walker->walk_inputs(args.ptr(), kwargs.ptr(), signature);
  const CallTree& tree = walker->tree();
  std::vector<std::uint32_t> canonical(tree.nodes().size());
  for (std::uint32_t i = 0; i < canonical.size(); ++i) {
    canonical[tree.node_at(i)] = i;
  }
  Containers containers;
  for (const Walker::Container& container : walker->containers()) {
    containers[nb::int_(canonical[container.node])] =
        nb::make_tuple(nb::borrow(container.object.get()),
                       nb::str(tree.locator_of(container.node).shown().c_str()));
  }
  return containers;
}

}  // namespace

PyObject* changes_module() {
  static PyObject* module = nullptr;
  if (module == nullptr) {
    module = Object::steal(PyImport_ImportModule("graphtune.argument_changes")).release();
  }
  return module;
}

bool is_argument(PyObject* object) {
  static PyObject* type = nullptr;
  if (type == nullptr) {
    type = Object::steal(PyObject_GetAttrString(changes_module(), "Argument")).release();
  }
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == type;
}

std::uint32_t node_of_argument(PyObject* argument) {
  const Object node = Object::steal(PyObject_GetAttrString(argument, "node"));
  const unsigned long value = PyLong_AsUnsignedLong(node.get());
  if (PyErr_Occurred() != nullptr) {
    throw PythonError();
  }
  return static_cast<std::uint32_t>(value);
}

std::string find_shared_container(const Walker& call) {
  std::unordered_map<const PyObject*, std::uint32_t> nodes;
  for (const Walker::Container& container : call.containers()) {
    if (PyTuple_Check(container.object.get())) {
      continue;
    }
    const auto [first, is_new] = nodes.emplace(container.object.get(), container.node);
    if (!is_new) {
      const CallTree& tree = call.tree();
      return tree.locator_of(first->second).shown() + " and " +
             tree.locator_of(container.node).shown();
    }
  }
  return {};
}

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
    const std::size_t index = before.tree().tensor_at(i);
    places.emplace(identity_of(before.tensors()[index].get()), i + 1);
  }
  std::vector<std::uint64_t> parts{CallKey(after.tree(), true).hash()};
  for (std::size_t i = 0; i < after.tensors().size(); ++i) {
    const std::size_t index = after.tree().tensor_at(i);
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

void bind_argument_changes(nb::module_& module) {
  nb::class_<ArgumentChanges>(module, "ArgumentChanges",
                              "What a graph's calls do to the containers among their arguments.")
      .def(
          "__init__",
          [](ArgumentChanges* self, nb::handle form, std::vector<std::int32_t> sources,
             std::uint32_t extra_results, std::string not_in_result) {
            const WalkerLease walker;
            walker->walk_result(form.ptr());
            CallTree tree = walker->tree();
            tree.detach();
            check_can_be_stored(tree);
            new (self) ArgumentChanges{std::move(tree), std::move(sources), extra_results,
                                       std::move(not_in_result)};
          },
          "form"_a, "sources"_a, "extra_results"_a, "not_in_result"_a,
          "Sources: what each tensor of the form, in canonical order, is: result i of the engine, "
          "or "
          "-1 - i for input i.");
  module.def("call_containers", &call_containers, "args"_a, "kwargs"_a, "signature"_a = nb::none(),
             "By node, in canonical order: each container of a call, with its place as text.");
}

}  // namespace graphtune::python
