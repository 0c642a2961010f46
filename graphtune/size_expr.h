#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graphtune/export.h"

namespace graphtune {

/// A size as a linear expression of symbols: offset + sum of coefficient * symbol. Symbol 0 is the
/// batch size `b`, symbol k > 0 prints as `s<k-1>`. Static axes have no terms.
struct GRAPHTUNE_API SizeExpr {
  std::int64_t offset = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> terms;  ///< (symbol, coefficient), by symbol

  static SizeExpr constant(std::int64_t size) { return {size, {}}; }
  static SizeExpr symbol(std::uint32_t symbol, std::int64_t coefficient = 1) {
    return {0, {{symbol, coefficient}}};
  }

  [[nodiscard]] bool is_constant() const noexcept { return terms.empty(); }
  /// One symbol with coefficient 1 and no offset.
  [[nodiscard]] bool is_symbol() const noexcept {
    return offset == 0 && terms.size() == 1 && terms[0].second == 1;
  }
  /// "8", "b", "2*b", "s0+s1", "s0+1"
  [[nodiscard]] std::string to_string() const;
  /// Inverse of to_string. Throws ValueError.
  static SizeExpr parse(std::string_view text);
  /// Value for the given symbol values (indexed by symbol, one for each that occurs). Wraps around
  /// where 64 bits don't suffice: no tensor has such a size.
  [[nodiscard]] std::int64_t evaluate(std::span<const std::int64_t> symbols) const noexcept;
  friend bool operator==(const SizeExpr&, const SizeExpr&) = default;
};

/// Terms of one symbol are joined; those that cancel out are left out.
[[nodiscard]] GRAPHTUNE_API SizeExpr operator+(const SizeExpr& a, const SizeExpr& b);
[[nodiscard]] GRAPHTUNE_API SizeExpr operator*(std::int64_t factor, const SizeExpr& expr);

/// "b", "s0", "s1" …
[[nodiscard]] GRAPHTUNE_API std::string symbol_name(std::uint32_t symbol);

}  // namespace graphtune
