#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "graphtune/call_tree.h"
#include "graphtune/constant.h"
#include "graphtune/tensor.h"

namespace graphtune {

class Value;

/// A container of a C++ call: list, tuple, dict, or an object with a type name. Children carry the
/// step that reaches them: index (list, tuple, deque-like objects), key (dict and its subclasses),
/// attribute (dataclasses …).
struct Container {
  NodeKind kind = NodeKind::List;
  std::string type;  ///< Object: Python's `module.qualname`; empty for plain containers
  std::vector<std::pair<Step, Value>> children;
};

/// An argument or a result in C++: the counterpart of the Python object, with the same CallKey.
/// Cheap to copy: containers are shared and never change.
class GRAPHTUNE_API Value {
 public:
  Value() = default;  ///< None
  Value(std::nullptr_t) {}
  Value(bool value) : data_(Constant::boolean(value)) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T value) : data_(integer(value)) {}
  Value(double value) : data_(Constant::real(value)) {}
  Value(const char* value) : data_(Constant::string(value)) {}
  Value(std::string_view value) : data_(Constant::string(value)) {}
  Value(const std::string& value) : data_(Constant::string(value)) {}
  Value(Constant value) : data_(std::move(value)) {}
  Value(Tensor tensor) : data_(std::move(tensor)) {}
  template <typename T>
  Value(T*) = delete;  // would become a bool

  // Containers may nest CallTree::kMaxDepth deep; deeper ones are refused with ValueError.
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  /// Keys are usually strings: {{"input_ids", t}, …}. Throws ValueError for a key given twice.
  static Value dict(std::vector<std::pair<Constant, Value>> items);
  static Value dict(std::vector<std::pair<std::string, Value>> items);
  /// `type` is Python's `module.qualname`.
  static Value object(std::string type, std::vector<std::pair<Step, Value>> children);
  /// Throws ValueError where a step does not fit the kind: 0, 1, 2 … in a list or tuple, keys in a
  /// dict.
  static Value container(Container container);

  [[nodiscard]] bool is_none() const noexcept;
  [[nodiscard]] bool is_tensor() const noexcept { return std::holds_alternative<Tensor>(data_); }
  [[nodiscard]] bool is_constant() const noexcept {
    return std::holds_alternative<Constant>(data_);
  }
  [[nodiscard]] bool is_container() const noexcept;
  /// TypeError that says what the value is instead.
  [[nodiscard]] const Tensor& tensor() const;
  [[nodiscard]] const Constant& constant() const;
  [[nodiscard]] const Container& container() const;
  [[nodiscard]] std::size_t size() const;
  /// Child by key or attribute name / by index; ValueError lists what there is.
  [[nodiscard]] const Value& operator[](std::string_view name) const;
  [[nodiscard]] const Value& at(std::size_t index) const;

 private:
  friend class ValueFlattener;
  friend class Unflattener;
  struct SharedContainer;
  template <typename T>
  static Constant integer(T value) {
    if (std::in_range<std::int64_t>(value)) {
      return Constant::integer(static_cast<std::int64_t>(value));
    }
    return Constant::big_integer(std::to_string(value));
  }
  /// `type` is the interned container.type, null where that is empty.
  static Value container(Container container, const std::string* type);
  [[nodiscard]] std::string description() const;

  std::variant<Constant, Tensor, std::shared_ptr<const SharedContainer>> data_;
};

/// The arguments of one call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Flattens a call; the tree borrows from `arguments`. Throws ValueError for a name given twice.
GRAPHTUNE_API void flatten(const Arguments& arguments, CallTree& tree);
/// Flattens a result.
GRAPHTUNE_API void flatten(const Value& result, CallTree& tree);
/// Builds the value that the tree of a result describes, in the caller's order, taking its tensors
/// from `tensors`, which stand in canonical order. Throws ValueError for another count of tensors,
/// for the tree of a call, and naming the locator of an opaque leaf: nothing can be given back for
/// that.
[[nodiscard]] GRAPHTUNE_API Value unflatten(const CallTree& tree, std::vector<Tensor> tensors);
/// The same for the tree of a call.
[[nodiscard]] GRAPHTUNE_API Arguments unflatten_arguments(const CallTree& tree,
                                                          std::vector<Tensor> tensors);

}  // namespace graphtune
