#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graphtune/constant.h"
#include "graphtune/export.h"
#include "graphtune/value.h"

namespace graphtune {

/// A parameter of the wrapped callable.
struct Parameter {
  enum class Kind : std::uint8_t { PositionalOnly, PositionalOrKeyword, VarPositional, KeywordOnly, VarKeyword };
  std::string name;
  Kind kind = Kind::PositionalOrKeyword;
  bool has_default = false;
  std::optional<Constant> default_value;  ///< when the default is a constant
};

/// The callable's parameters, by which calls are normalised: `f(x, y)`, `f(x, y=y)` and `f(y=y, x=x)` are one call, and so
/// are `f(x)` and `f(x, None)` when None is the default.
///
/// Normal form: named parameters are keywords; an argument that equals its constant default (type and value) is left out;
/// positional-only and *args stay positional, and so does all before a non-empty *args. Immutable; thread safe.
class GRAPHTUNE_API Signature {
 public:
  Signature() = default;  ///< accepts anything, changes nothing: f(*args, **kwargs)
  explicit Signature(std::vector<Parameter> parameters);

  [[nodiscard]] const std::vector<Parameter>& parameters() const noexcept { return parameters_; }

  /// Where an argument goes in the normal form.
  struct Slot {
    enum class Place : std::uint8_t { Positional, Keyword, Dropped } place = Place::Keyword;
    const std::string* name = nullptr;  ///< Keyword: interned
  };
  /// Places positional argument `index` of `count`. Throws TypeError for too many arguments.
  [[nodiscard]] Slot place_positional(std::size_t index, std::size_t count) const;
  /// The default that `parameter` has, if it is a constant: an equal argument is dropped.
  [[nodiscard]] const Constant* default_of(std::string_view parameter) const;

  /// The normal form of C++ arguments. Throws TypeError for unknown, doubled, missing or too many arguments.
  [[nodiscard]] Arguments normalise(const Arguments& arguments) const;

 private:
  std::vector<Parameter> parameters_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

}  // namespace graphtune
