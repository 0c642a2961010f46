#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "graphtune/call_tree.h"
#include "graphtune/tensor.h"
#include "graphtune/value.h"

namespace graphtune::test {

using Named = std::vector<std::pair<std::string, Value>>;

inline Tensor zeros(std::initializer_list<std::int64_t> sizes, DType dtype = DType::Float32) {
  return Tensor::zeros(dtype, Dims(sizes));
}

inline Tensor ids(std::initializer_list<std::int64_t> sizes) { return zeros(sizes, DType::Int64); }

/// A call together with its tree, which borrows from it.
struct Call {
  Arguments arguments;
  CallTree tree;

  explicit Call(std::vector<Value> positional, Named named = {})
      : arguments{std::move(positional), std::move(named)} {
    flatten(arguments, tree);
  }
  explicit Call(Named named) : Call({}, std::move(named)) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

/// A result together with its tree.
struct Result {
  Value value;
  CallTree tree{CallTree::Kind::Result};

  explicit Result(Value result) : value(std::move(result)) { flatten(value, tree); }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
};

/// The message of what `function` throws as E; fails the test when it throws nothing.
template <typename E, typename Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const E& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

}  // namespace graphtune::test
