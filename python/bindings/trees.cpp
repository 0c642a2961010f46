#include "bindings/trees.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include "bindings/rebuild.h"
#include "bindings/stub_types.h"
#include "bindings/tensor_access.h"
#include "bindings/walk.h"
#include "bindings/walker_lease.h"
#include "graphtune/call_key.h"
#include "graphtune/error.h"
#include "graphtune/value.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

using nlohmann::json;

nb::bytes bytes_of(const CallTree& tree, bool strict) {
  const CallKey key(tree, strict);
  return nb::bytes(key.bytes().data(), key.bytes().size());
}

std::string unhex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// A value as JSON: [kind, value …]. Texts and floats stand in hexadecimal bytes, integers in 0x…
// digits.
Constant constant_from(const json& item) {
  const std::string kind = item.at(0);
  if (kind == "none") {
    return Constant::none();
  }
  if (kind == "bool") {
    return Constant::boolean(item.at(1).get<bool>());
  }
  if (kind == "int") {
    return Constant::big_integer(item.at(1).get<std::string>());
  }
  if (kind == "float") {
    double value = 0;
    const std::string bytes = unhex(item.at(1));
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
    return Constant::real(value);
  }
  if (kind == "str") {
    return Constant::string(unhex(item.at(1)));
  }
  if (kind == "bytes") {
    return Constant::bytes(unhex(item.at(1)));
  }
  if (kind == "other") {
    return Constant::other(item.at(1).get<std::string>(), item.at(2).get<std::string>());
  }
  throw ValueError("a value of unknown kind '" + kind + "'");
}

Step step_from(const json& item) {
  const std::string kind = item.at(0);
  if (kind == "index") {
    return Step::at(item.at(1).get<std::int64_t>());
  }
  return kind == "key" ? Step::of_key(constant_from(item.at(1)))
                       : Step::attribute(item.at(1).get<std::string>());
}

Value value_from(const json& item) {
  const std::string kind = item.at(0);
  if (kind == "tensor") {
    const auto sizes = item.at(2).get<std::vector<std::int64_t>>();
    return Tensor::empty(dtype_from_string(item.at(1).get<std::string>()), Dims(sizes));
  }
  if (kind == "list" || kind == "tuple") {
    std::vector<Value> children;
    for (const json& child : item.at(1)) {
      children.push_back(value_from(child));
    }
    return kind == "list" ? Value::list(std::move(children)) : Value::tuple(std::move(children));
  }
  if (kind == "dict") {
    std::vector<std::pair<Constant, Value>> children;
    for (const json& child : item.at(1)) {
      children.emplace_back(constant_from(child.at(0)), value_from(child.at(1)));
    }
    return Value::dict(std::move(children));
  }
  if (kind == "object") {
    std::vector<std::pair<Step, Value>> children;
    for (const json& child : item.at(2)) {
      children.emplace_back(step_from(child.at(0)), value_from(child.at(1)));
    }
    return Value::object(item.at(1).get<std::string>(), std::move(children));
  }
  return constant_from(item);
}

TensorList tensors_of(nb::handle object) {
  const WalkerLease walker;
  walker->walk_result(object.ptr());
  TensorList tensors;
  for (const Object& tensor : walker->tensors()) {
    tensors.append(nb::borrow(tensor.get()));
  }
  return tensors;
}

nb::object rebuild(nb::handle object, const TensorSequence& tensors, bool copy_containers) {
  std::vector<Object> changed;
  for (const nb::handle tensor : tensors) {
    changed.push_back(Object::borrow(tensor.ptr()));
  }
  Rebuilder rebuilder(changed, copy_containers);
  Object result = rebuilder.rebuild(object.ptr());
  rebuilder.finish();
  return nb::steal(result.release());
}

}  // namespace

void bind_trees(nb::module_& module) {
  module.def(
      "key_of",
      [](nb::handle object, bool strict) {
        const WalkerLease walker;
        walker->walk_result(object.ptr());
        return bytes_of(walker->tree(), strict);
      },
      "object"_a.none(), "strict"_a = true, "The bytes of a result's CallKey.");
  module.def(
      "key_of_call",
      [](nb::handle args, nb::handle kwargs, bool strict) {
        const Object named = check_arguments(args.ptr(), kwargs.ptr());
        const WalkerLease walker;
        walker->walk_inputs(args.ptr(), named.get());
        return bytes_of(walker->tree(), strict);
      },
      "args"_a, "kwargs"_a.none(), "strict"_a = true, "The bytes of a call's CallKey.");
  module.def(
      "key_of_json",
      [](const std::string& text, bool strict) {
        CallTree tree(CallTree::Kind::Result);
        const Value value = value_from(json::parse(text));
        flatten(value, tree);
        return bytes_of(tree, strict);
      },
      "text"_a, "strict"_a = true, "The bytes of a result's CallKey, made of C++ values.");
  module.def("tensors_of", &tensors_of, "object"_a.none(), "All tensors, in the object's order.");
  module.def("rebuild", &rebuild, "object"_a.none(), "tensors"_a, "copy_containers"_a = false,
             "The object with other tensors, each container of its very type.");
  module.def(
      "share", [](nb::handle tensor) { return nb::steal(from_core(to_core(tensor.ptr()))); },
      "tensor"_a, "The tensor on its way through the core and back: over the same memory.");
}

}  // namespace graphtune::python
