#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "graphtune/export.h"

namespace graphtune {

class ByteCursor;

/// A process-wide copy of `text` that is never freed: type names are compared by their text and
/// passed by pointer. Thread safe.
[[nodiscard]] GRAPHTUNE_API const std::string* intern(std::string_view text);

/// A leaf that is no tensor, compared by type and value: None, bool, int, float, string, bytes, or
/// anything else that has a type name and a text that identifies its value (enum members, dtypes,
/// numpy arrays by digest …).
///
/// NaN equals NaN, 0.0 differs from -0.0, `True`, `1`, `1.0`, "1" and b"1" all differ. Texts longer
/// than kMaxText bytes are kept as a beginning plus SHA-256, so that a constant never holds a large
/// argument.
class GRAPHTUNE_API Constant {
 public:
  enum class Kind : std::uint8_t { None, Bool, Int, BigInt, Float, String, Bytes, Other };
  static constexpr std::size_t kMaxText = 256;

  Constant() = default;
  static Constant none() { return {}; }
  static Constant boolean(bool value);
  static Constant integer(std::int64_t value);
  /// Any integer, in decimal or 0x… digits; equals integer() where int64 can hold it. Throws
  /// ValueError for other text and for more than 100,000 decimal digits.
  static Constant big_integer(std::string_view digits);
  static Constant real(double value);
  static Constant string(std::string_view value);
  static Constant bytes(std::string_view value);
  /// `identity` decides equality, `display` is what tables show (empty: the identity).
  static Constant other(std::string_view type, std::string_view identity,
                        std::string_view display = {});
  /// Makes this the string `value`, reusing the memory.
  void assign_string(std::string_view value);

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] bool as_bool() const noexcept { return integer_ != 0; }
  [[nodiscard]] std::int64_t as_int() const noexcept { return integer_; }
  [[nodiscard]] double as_double() const noexcept { return std::bit_cast<double>(integer_); }
  /// String, Bytes: the (perhaps shortened) text. BigInt: 0x… digits, perhaps shortened. Other: its
  /// identity.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// False when the text was shortened: the value itself can't be given back.
  [[nodiscard]] bool is_complete() const noexcept {
    return extra_ == nullptr || extra_->digest.empty();
  }
  /// Other: its type name; else the Python name of the kind ("int", "NoneType" …).
  [[nodiscard]] std::string_view type_name() const noexcept;

  /// As a table shows it: strings without quotes, long texts shortened with "…" and their length.
  [[nodiscard]] std::string display() const;
  /// As Python's repr shows it (for dict keys in locators); not shortened further.
  [[nodiscard]] std::string repr() const;
  /// Appends bytes that are equal for equal constants and different for different ones, and
  /// prefix-free.
  void encode(std::string& out) const;
  /// The same where there is room for encoded_bound() bytes.
  [[nodiscard]] ByteCursor encode(ByteCursor out) const;
  [[nodiscard]] std::size_t encoded_bound() const noexcept {
    constexpr std::size_t kKindAndTwoLengthsOrADigest = 48;
    return text_.size() + (type_ == nullptr ? 0 : type_->size()) + kKindAndTwoLengthsOrADigest;
  }

  friend GRAPHTUNE_API bool operator==(const Constant& a, const Constant& b) noexcept;
  /// A total order (kind, type, value; big integers by their text): dict keys are sorted with it.
  friend GRAPHTUNE_API bool operator<(const Constant& a, const Constant& b) noexcept;
  /// Negative, 0 or positive.
  [[nodiscard]] int compare(const Constant& other) const noexcept;

 private:
  friend struct ConstantJson;
  /// What few constants have, so that the others stay small.
  struct Extra {
    std::uint64_t full_size = 0;  // bytes of the text before it was shortened
    std::string digest;           // SHA-256 of the whole text (32 bytes) when it was shortened
    std::string display;          // Other: what tables show, when that is not the identity
  };

  Constant(Kind kind, std::int64_t integer) : kind_(kind), integer_(integer) {}
  void set_text(std::string_view text, std::string_view display = {});

  Kind kind_ = Kind::None;
  std::int64_t integer_ = 0;           // Bool, Int; Float: its bits
  const std::string* type_ = nullptr;  // Other: interned
  std::string text_;
  std::shared_ptr<const Extra> extra_;  // null when all of it is empty
};

/// Python's repr of a string: quotes chosen and escaped as Python does. Input is UTF-8; invalid
/// bytes show as \xNN. (Code points that Unicode has not assigned are kept as they are: which these
/// are depends on Python's version.)
[[nodiscard]] GRAPHTUNE_API std::string python_repr(std::string_view text);
/// Python's repr of a bytes object: `b'…'`.
[[nodiscard]] GRAPHTUNE_API std::string python_repr_bytes(std::string_view bytes);
/// Python's repr of a float: `1.0`, `1e-05`, `nan`.
[[nodiscard]] GRAPHTUNE_API std::string python_repr(double value);

}  // namespace graphtune
