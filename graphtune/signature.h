#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graphtune/constant.h"
#include "graphtune/export.h"
#include "graphtune/value.h"

namespace graphtune {

/// A parameter of the wrapped callable.
struct Parameter {
  enum class Kind : std::uint8_t {
    PositionalOnly,
    PositionalOrKeyword,
    VarPositional,
    KeywordOnly,
    VarKeyword
  };
  std::string name;
  Kind kind = Kind::PositionalOrKeyword;
  bool has_default = false;
  std::optional<Constant> default_value;  ///< when the default is a constant
};

/// The callable's parameters, by which calls are normalised: `f(x, y)`, `f(x, y=y)` and `f(y=y,
/// x=x)` are one call, and so are `f(x)` and `f(x, None)` when None is the default.
///
/// Normal form: named parameters are keywords; an argument that equals its constant default (type
/// and value) is left out; positional-only and *args stay positional, and so does all before a
/// non-empty *args. What stays positional is never left out: the arguments after it would move.
/// Immutable; thread safe.
class GRAPHTUNE_API Signature {
 public:
  Signature();  ///< accepts anything, changes nothing: f(*args, **kwargs)
  /// Throws ValueError for what Python would not compile: doubled names, kinds out of order, a
  /// parameter without default after one with a default.
  explicit Signature(std::vector<Parameter> parameters);

  [[nodiscard]] const std::vector<Parameter>& parameters() const noexcept { return parameters_; }

  /// Where an argument goes in the normal form.
  struct Slot {
    enum class Place : std::uint8_t { Positional, Keyword } place = Place::Keyword;
    const std::string* name = nullptr;  ///< Keyword: interned
  };
  /// Places positional argument `index` of `count`. Throws TypeError for too many arguments.
  [[nodiscard]] Slot place_positional(std::size_t index, std::size_t count) const;
  /// The default that the argument `parameter` has, if it is a constant: an equal keyword argument
  /// is dropped.
  [[nodiscard]] const Constant* default_of(std::string_view parameter) const;

  /// True when normalise() would change nothing. Throws as normalise() does.
  [[nodiscard]] bool is_normal(const Arguments& arguments) const;
  /// The normal form of C++ arguments. Throws TypeError for unknown, doubled, missing or too many
  /// arguments, in the words of Python's inspect.Signature.bind.
  [[nodiscard]] Arguments normalise(Arguments arguments) const;

 private:
  void check(const Arguments& arguments) const;
  [[nodiscard]] bool equals_default(std::string_view parameter, const Value& value) const;

  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };

  std::vector<Parameter> parameters_;
  std::unordered_map<std::string, std::size_t, TextHash, std::equal_to<>>
      by_keyword_;                                    // those that can be keywords
  std::vector<const std::string*> positional_names_;  // interned
  std::size_t positional_only_ = 0;  // how many of positional_names_ can't be keywords
  bool var_positional_ = false;
  bool var_keyword_ = false;
};

}  // namespace graphtune
