#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bindings/call_signature.h"
#include "bindings/children.h"
#include "bindings/object.h"
#include "bindings/size_arena.h"
#include "graphtune/call_tree.h"

namespace graphtune::python {

/// What a type is made of beside its children (the context of a flatten function) stands in the
/// tree as a key of this type, which leads to an empty tuple: it is structure, also where constants
/// are ignored.
inline constexpr const char* kContextType = "graphtune.context";
[[nodiscard]] inline bool is_context_key(const Step& step) {
  return step.kind == Step::Kind::Key && step.key.kind() == Constant::Kind::Other &&
         step.key.type_name() == kContextType;
}

/// Type name of the key under which a flattened object's context stands among its children.
inline constexpr const char* kContextKey = "graphtune.context";

/// Flattens Python objects to a CallTree.
///
/// Nothing is created for lists, tuples, dicts, numbers, strings and tensors; objects of other
/// types are read as graphtune.types.classify says for their type. Errors leave as
/// graphtune::Error, or as PythonError where a Python error is set (raised by the user's own
/// flatten function, say), with the locator as a note.
///
/// Python code may run during a walk, so one walker serves one walk at a time: take it with
/// WalkerLease.
class Walker {
 public:
  enum class Hold : std::uint8_t {
    /// Sizes, strides and data are the caller's: the tree is valid while nothing changes the
    /// tensors in place.
    Borrow,
    /// Sizes are copied: the tree outlives what a model does to its arguments (but data and strides
    /// are null).
    Copy,
  };

  /// Flattens a call. `args` is a tuple or list, `kwargs` an exact dict or null. With a signature
  /// the call is normalised; throws TypeError for an argument given twice or too many arguments.
  void walk_inputs(PyObject* args, PyObject* kwargs, const CallSignature* signature = nullptr,
                   Hold hold = Hold::Borrow);
  /// Flattens a result.
  void walk_result(PyObject* result, Hold hold = Hold::Borrow);

  [[nodiscard]] const CallTree& tree() const noexcept { return tree_; }
  /// The tensors in the caller's order (that of tree().tensors()), held until clear() or the next
  /// walk.
  [[nodiscard]] std::span<const Object> tensors() const noexcept { return tensors_; }
  /// From the next walk on, containers below the roots are kept as the tensors are.
  void keep_containers(bool keep) noexcept { keeps_containers_ = keep; }
  struct Container {
    std::uint32_t node;  ///< in the caller's order
    Object object;
  };
  [[nodiscard]] std::span<const Container> containers() const noexcept { return containers_; }
  /// The container at a node in canonical order; throws ValueError when none was kept there.
  [[nodiscard]] PyObject* container_at(std::uint32_t canonical_node) const;
  /// Some tensor stands for another one because the call is being traced or transformed
  /// (torch.compile, vmap, grad …): the model has to run, and nothing is to be learned from the
  /// call. The tree may lack sizes then.
  [[nodiscard]] bool has_virtual_tensors() const noexcept { return has_virtual_tensors_; }

  /// Drops what the last walk holds, keeping memory for the next.
  void clear();

 private:
  struct Frame {
    PyObject* object;
    std::uint32_t node;
  };

  void start(CallTree::Kind kind, Hold hold);
  void add(PyObject* object);
  void add_child(const ChildStep& step, PyObject* child);
  void add_argument(PyObject* name, PyObject* argument, const CallSignature* signature);
  void add_tensor(PyObject* tensor);
  void add_dict(PyObject* dict);
  void add_dict_with_any_keys(PyObject* dict);
  void add_typed(const TypeInfo& info, PyObject* object);
  void open(PyObject* object, NodeKind kind, const std::string* type = nullptr);
  void close();
  void step(const ChildStep& step);
  void step_key(PyObject* key);
  void check_contains_itself(PyObject* object);
  [[nodiscard]] std::string place(std::size_t open_count) const;

  CallTree tree_;
  std::vector<Object> tensors_;
  std::vector<Container> containers_;
  KeepAlive alive_;
  std::vector<Frame> path_;  // open containers
  SizeArena sizes_;
  ChildStep step_;  // of the object that is being added
  Hold hold_ = Hold::Borrow;
  bool keeps_containers_ = false;
  bool has_virtual_tensors_ = false;
  bool noted_ = false;  // the Python error that is on its way has its locator
};

/// Arguments as a user hands them to a function of ours: throws TypeError naming the argument
/// unless `args` is a tuple or list, and `kwargs` None or a dict with string keys. Gives `kwargs`
/// as an exact dict, null for None.
[[nodiscard]] Object check_arguments(PyObject* args, PyObject* kwargs);

}  // namespace graphtune::python
