#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graphtune/export.h"

namespace graphtune {

/// A process-wide copy of `text` that is never freed: type names are compared by their text and passed by pointer.
/// Thread safe.
[[nodiscard]] GRAPHTUNE_API const std::string* intern(std::string_view text);

/// A leaf that is no tensor, compared by type and value: None, bool, int, float, string, bytes, or anything else that
/// has a type name and a text that identifies its value (enum members, dtypes, numpy arrays by digest …).
///
/// NaN equals NaN, 0.0 differs from -0.0, `True`, `1`, `1.0`, "1" and b"1" all differ. Texts longer than
/// kMaxText bytes are kept as a beginning plus SHA-256, so that a constant never holds a large argument.
class GRAPHTUNE_API Constant {
 public:
  enum class Kind : std::uint8_t { None, Bool, Int, BigInt, Float, String, Bytes, Other };
  static constexpr std::size_t kMaxText = 256;

  Constant() = default;
  static Constant none() { return {}; }
  static Constant boolean(bool value);
  static Constant integer(std::int64_t value);
  /// An integer outside int64, as its decimal (or 0x…) digits.
  static Constant big_integer(std::string_view digits);
  static Constant real(double value);
  static Constant string(std::string_view value);
  static Constant bytes(std::string_view value);
  /// `identity` decides equality, `display` is what tables show (empty: the identity).
  static Constant other(std::string_view type, std::string_view identity, std::string_view display = {});

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] bool as_bool() const noexcept { return integer_ != 0; }
  [[nodiscard]] std::int64_t as_int() const noexcept { return integer_; }
  [[nodiscard]] double as_double() const noexcept { return real_; }
  /// String, Bytes, BigInt: the (perhaps shortened) text. Other: its identity.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// False when the text was shortened: the value itself can't be given back.
  [[nodiscard]] bool is_complete() const noexcept { return digest_.empty(); }
  /// Other: its type name; else the Python name of the kind ("int", "NoneType" …).
  [[nodiscard]] std::string_view type_name() const noexcept;

  /// As a table shows it: strings without quotes, long texts shortened with "…" and their length.
  [[nodiscard]] std::string display() const;
  /// As Python's repr shows it (for dict keys in locators).
  [[nodiscard]] std::string repr() const;
  /// Appends bytes that are equal for equal constants and different for different ones, and prefix-free.
  void encode(std::string& out) const;

  friend GRAPHTUNE_API bool operator==(const Constant& a, const Constant& b) noexcept;
  /// A total order (kind, type, value): dict keys are sorted with it.
  friend GRAPHTUNE_API bool operator<(const Constant& a, const Constant& b) noexcept;

 private:
  friend struct ConstantJson;
  Kind kind_ = Kind::None;
  const std::string* type_ = nullptr;
  std::int64_t integer_ = 0;
  double real_ = 0;
  std::uint64_t full_size_ = 0;  // bytes of the text before it was shortened
  std::string text_;
  std::string display_;
  std::string digest_;  // SHA-256 (32 bytes) when shortened
};

/// Python's repr of a string: quotes chosen and escaped as Python does. Input is UTF-8; invalid bytes show as \xNN.
[[nodiscard]] GRAPHTUNE_API std::string python_repr(std::string_view text);

}  // namespace graphtune
