#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graphtune/export.h"

namespace graphtune {

/// A condition on sizes that is no range of a single symbol: `b*s0 <= 20`, `(b*s0) % 4 == 0`,
/// `s0 != s1 or b == 1`. The grammar is the one that Python's size_expressions.py evaluates:
/// comparisons (also `3 <= b < s0`) of integers, symbols, + - * // % min max and brackets, joined
/// by not, and, or.
///
/// A value, immutable; thread safe.
class GRAPHTUNE_API SizeCondition {
 public:
  static constexpr std::size_t kMaxSize = 4096;        ///< bytes of text
  static constexpr int kMaxDepth = 32;                 ///< of brackets, calls, signs and nots
  static constexpr std::uint32_t kMaxSymbol = 65'535;  ///< largest number of a symbol

  /// Trusts nothing. Throws ValueError, which says where and why, for any other text, and for one
  /// that exceeds the limits above.
  [[nodiscard]] static SizeCondition parse(std::string_view text);

  /// Whether it holds for the symbols' values, indexed by symbol, one for each of symbols().
  /// Divides as Python does (// rounds down, % has the divisor's sign), and evaluates as little of
  /// `and`, `or` and chained comparisons. Where it divides by zero or leaves 64 bits, it does not
  /// hold. Allocates nothing.
  [[nodiscard]] bool holds(std::span<const std::int64_t> symbols) const noexcept;

  /// The symbols that occur, ascending.
  [[nodiscard]] const std::vector<std::uint32_t>& symbols() const noexcept { return symbols_; }
  /// In one form for all ways of spacing and bracketing it; parses to an equal condition.
  [[nodiscard]] const std::string& to_string() const noexcept { return text_; }
  friend bool operator==(const SizeCondition& a, const SizeCondition& b) noexcept {
    return a.text_ == b.text_;
  }

 private:
  friend class ConditionParser;
  enum class Op : std::uint8_t {
    Constant,  // pushes value
    Symbol,    // pushes the value of symbol `value`
    Negate,
    Not,
    AndThen,  // goes to `value` if the top is false, else drops it
    OrElse,   // goes to `value` if the top is true, else drops it
    // These take two numbers and leave one.
    Add,
    Subtract,
    Multiply,
    FloorDivide,
    Modulo,
    Min,
    Max,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
  };
  struct Instruction {
    Op op = Op::Constant;
    std::int64_t value = 0;
  };
  static constexpr std::size_t kMaxStack = 128;

  SizeCondition() = default;
  /// False where there is no result: division by zero, or beyond 64 bits.
  static bool apply(Op op, std::int64_t a, std::int64_t b, std::int64_t& result) noexcept;

  std::string text_;
  std::vector<Instruction> program_;  // postfix
  std::vector<std::uint32_t> symbols_;
};

}  // namespace graphtune
