#pragma once

#include <string_view>
#include <vector>

#include "bindings/object.h"
#include "graphtune/signature.h"

namespace graphtune::python {

/// A graphtune::Signature with its parameters' names as Python strings, so that a call is
/// normalised without looking at the names' letters. Immutable.
class CallSignature {
 public:
  CallSignature() = default;  ///< accepts anything, changes nothing
  explicit CallSignature(std::vector<Parameter> parameters);
  // The names' defaults point into the signature: a copy needs its own, a move takes them along.
  CallSignature(const CallSignature& other) : CallSignature(other.signature_.parameters()) {}
  CallSignature(CallSignature&&) noexcept = default;
  CallSignature& operator=(CallSignature&&) noexcept = default;

  [[nodiscard]] const Signature& signature() const noexcept { return signature_; }
  /// The default that an equal keyword argument is dropped for, or null. `name` is a str.
  [[nodiscard]] const Constant* default_of(PyObject* name) const;
  /// The keyword that positional argument `index` of `count` is in the normal form, or null when it
  /// stays positional. Throws TypeError for too many arguments.
  [[nodiscard]] PyObject* keyword_of(std::size_t index, std::size_t count) const;

 private:
  struct Name {
    Object text;  // interned: most callers pass the very object
    const Constant* default_value = nullptr;
  };
  Signature signature_;
  std::vector<Name> names_;
};

}  // namespace graphtune::python
