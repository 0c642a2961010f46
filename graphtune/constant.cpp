#include "graphtune/constant.h"

#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_set>

#include <fmt/format.h>

#include "graphtune/big_integer.h"
#include "graphtune/byte_cursor.h"
#include "graphtune/digest.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

// Longer values would make tables unreadable.
constexpr std::size_t kMaxDisplay = 80;
constexpr std::size_t kShortDisplay = 64;
// Marks a shortened text in the encoding; kinds are smaller.
constexpr std::uint8_t kShortened = 0x80;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};

struct InternTable {
  std::shared_mutex mutex;
  std::unordered_set<std::string, TextHash, std::equal_to<>> texts;
};

InternTable& intern_table() {
  // Never destroyed: other static objects may hold its pointers until the process ends.
  static auto& table = *new InternTable;
  return table;
}

int sign_of(bool less, bool greater) noexcept {
  return static_cast<int>(greater) - static_cast<int>(less);
}

template <typename T>
int compare_values(const T& a, const T& b) noexcept {
  return sign_of(a < b, b < a);
}

/// Integers in the order of the floats whose bits are given; -0.0 before 0.0, NaN last.
std::int64_t float_order(std::int64_t bits) noexcept {
  return bits < 0 ? bits ^ std::numeric_limits<std::int64_t>::max() : bits;
}

std::optional<std::int64_t> to_int64(std::string_view canonical) {
  const bool negative = canonical.front() == '-';
  const std::string_view digits = canonical.substr(negative ? 3 : 2);
  if (digits.size() > 16) {
    return std::nullopt;
  }
  const std::uint64_t magnitude = std::stoull(std::string(digits), nullptr, 16);
  const std::uint64_t limit = std::uint64_t{1} << 63;
  if (magnitude > limit || (magnitude == limit && !negative)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
}

std::string shorten(std::string_view text, std::uint64_t full_size, std::string_view unit) {
  return fmt::format("{}… ({} {})", cut_utf8(text, kShortDisplay), full_size, unit);
}

}  // namespace

const std::string* intern(std::string_view text) {
  InternTable& table = intern_table();
  {
    const std::shared_lock lock(table.mutex);
    const auto found = table.texts.find(text);
    if (found != table.texts.end()) {
      return &*found;
    }
  }
  const std::unique_lock lock(table.mutex);
  return &*table.texts.emplace(text).first;
}

Constant Constant::boolean(bool value) { return {Kind::Bool, value ? 1 : 0}; }

Constant Constant::integer(std::int64_t value) { return {Kind::Int, value}; }

Constant Constant::big_integer(std::string_view digits) {
  const std::string canonical = canonical_integer(digits);
  if (const std::optional<std::int64_t> value = to_int64(canonical)) {
    return integer(*value);
  }
  Constant constant(Kind::BigInt, 0);
  constant.set_text(canonical);
  return constant;
}

Constant Constant::real(double value) {
  // One NaN for all, whatever its sign and payload.
  return {Kind::Float, std::bit_cast<std::int64_t>(
                           std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value)};
}

Constant Constant::string(std::string_view value) {
  Constant constant(Kind::String, 0);
  constant.set_text(value);
  return constant;
}

Constant Constant::bytes(std::string_view value) {
  Constant constant(Kind::Bytes, 0);
  constant.set_text(value);
  return constant;
}

Constant Constant::other(std::string_view type, std::string_view identity,
                         std::string_view display) {
  Constant constant(Kind::Other, 0);
  constant.type_ = intern(type);
  constant.set_text(identity, display == identity ? std::string_view{} : display);
  return constant;
}

void Constant::assign_string(std::string_view value) {
  kind_ = Kind::String;
  integer_ = 0;
  type_ = nullptr;
  if (value.size() <= kMaxText && extra_ == nullptr) {
    text_.assign(value);
  } else {
    set_text(value);
  }
}

void Constant::set_text(std::string_view text, std::string_view display) {
  if (text.size() <= kMaxText && display.empty()) {
    text_.assign(text);
    extra_.reset();
    return;
  }
  auto extra = std::make_shared<Extra>();
  if (text.size() > kMaxText) {
    const Sha256 digest = sha256(text);
    extra->digest.assign(digest.begin(), digest.end());
    extra->full_size = text.size();
  }
  extra->display =
      display.size() > kMaxText ? shorten(display, display.size(), "bytes") : std::string(display);
  text_.assign(kind_ == Kind::Bytes ? text.substr(0, kMaxText) : cut_utf8(text, kMaxText));
  extra_ = std::move(extra);
}

std::string_view Constant::type_name() const noexcept {
  switch (kind_) {
    case Kind::None:
      return "NoneType";
    case Kind::Bool:
      return "bool";
    case Kind::Int:
    case Kind::BigInt:
      return "int";
    case Kind::Float:
      return "float";
    case Kind::String:
      return "str";
    case Kind::Bytes:
      return "bytes";
    case Kind::Other:
      break;
  }
  return *type_;
}

std::string Constant::display() const {
  if (kind_ == Kind::BigInt) {
    if (!is_complete()) {
      const std::size_t prefix = text_.front() == '-' ? 3 : 2;
      return shorten(text_, extra_->full_size - prefix, "hexadecimal digits");
    }
    const std::string digits = decimal_integer(text_);
    return digits.size() <= kMaxDisplay ? digits : shorten(digits, digits.size(), "digits");
  }
  if (kind_ == Kind::Other && extra_ != nullptr && !extra_->display.empty()) {
    return extra_->display;
  }
  if (kind_ == Kind::Bytes) {
    return text_.size() <= kMaxDisplay
               ? python_repr_bytes(text_)
               : fmt::format("{}… ({} bytes)", python_repr_bytes(text_.substr(0, kShortDisplay)),
                             is_complete() ? text_.size() : extra_->full_size);
  }
  if (kind_ != Kind::String && kind_ != Kind::Other) {
    return repr();
  }
  return text_.size() <= kMaxDisplay
             ? text_
             : shorten(text_, is_complete() ? text_.size() : extra_->full_size, "bytes");
}

std::string Constant::repr() const {
  switch (kind_) {
    case Kind::None:
      return "None";
    case Kind::Bool:
      return as_bool() ? "True" : "False";
    case Kind::Int:
      return fmt::format("{}", integer_);
    case Kind::BigInt:
      return is_complete() ? decimal_integer(text_) : display();
    case Kind::Float:
      return python_repr(as_double());
    case Kind::String:
    case Kind::Bytes: {
      const std::string quoted =
          kind_ == Kind::String ? python_repr(text_) : python_repr_bytes(text_);
      return is_complete() ? quoted : fmt::format("{}… ({} bytes)", quoted, extra_->full_size);
    }
    case Kind::Other:
      break;
  }
  if (extra_ == nullptr) {
    return text_;
  }
  return extra_->display.empty() ? shorten(text_, extra_->full_size, "bytes") : extra_->display;
}

void Constant::encode(std::string& out) const {
  const std::size_t start = out.size();
  out.resize(start + encoded_bound());
  const ByteCursor end = encode(ByteCursor(out.data() + start));
  out.resize(static_cast<std::size_t>(end.position() - out.data()));
}

ByteCursor Constant::encode(ByteCursor out) const {
  const bool complete = is_complete();
  out.byte(
      static_cast<std::uint8_t>(static_cast<std::uint8_t>(kind_) | (complete ? 0U : kShortened)));
  switch (kind_) {
    case Kind::None:
      return out;
    case Kind::Bool:
      out.byte(static_cast<std::uint8_t>(integer_));
      return out;
    case Kind::Int:
    case Kind::Float:
      out.fixed64(static_cast<std::uint64_t>(integer_));
      return out;
    case Kind::Other:
      out.text(*type_);
      break;
    case Kind::BigInt:
    case Kind::String:
    case Kind::Bytes:
      break;
  }
  if (complete) {
    out.text(text_);
  } else {
    out.fixed64(extra_->full_size);
    out.bytes(extra_->digest);
  }
  return out;
}

int Constant::compare(const Constant& other) const noexcept {
  // Keys are mostly short strings.
  if (kind_ == Kind::String && other.kind_ == Kind::String && extra_ == nullptr &&
      other.extra_ == nullptr) {
    return text_.compare(other.text_);
  }
  if (kind_ != other.kind_) {
    return compare_values(kind_, other.kind_);
  }
  if (kind_ == Kind::Float) {
    return compare_values(float_order(integer_), float_order(other.integer_));
  }
  if (integer_ != other.integer_) {
    return compare_values(integer_, other.integer_);
  }
  if (type_ != other.type_) {  // interned: another pointer, another text
    return type_->compare(*other.type_);
  }
  const int texts = text_.compare(other.text_);
  if (texts != 0 || (is_complete() && other.is_complete())) {
    return texts;
  }
  if (is_complete() != other.is_complete()) {
    return is_complete() ? -1 : 1;
  }
  return extra_->full_size != other.extra_->full_size
             ? compare_values(extra_->full_size, other.extra_->full_size)
             : extra_->digest.compare(other.extra_->digest);
}

bool operator==(const Constant& a, const Constant& b) noexcept { return a.compare(b) == 0; }

bool operator<(const Constant& a, const Constant& b) noexcept { return a.compare(b) < 0; }

}  // namespace graphtune
