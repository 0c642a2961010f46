#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "graphtune/constant.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// What str.isprintable() refuses, Unicode 14: other (control, format, surrogate, private use) and
// separators but the space. Sorted.
constexpr std::array kNotPrintable = std::to_array<Range>({
    {0x0000, 0x001F},   {0x007F, 0x00A0},    {0x00AD, 0x00AD},   {0x0600, 0x0605},
    {0x061C, 0x061C},   {0x06DD, 0x06DD},    {0x070F, 0x070F},   {0x0890, 0x0891},
    {0x08E2, 0x08E2},   {0x1680, 0x1680},    {0x180E, 0x180E},   {0x2000, 0x200F},
    {0x2028, 0x202F},   {0x205F, 0x206F},    {0x3000, 0x3000},   {0xD800, 0xF8FF},
    {0xFEFF, 0xFEFF},   {0xFFF0, 0xFFFB},    {0xFFFE, 0xFFFF},   {0x110BD, 0x110BD},
    {0x110CD, 0x110CD}, {0x13430, 0x13438},  {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
    {0xE0000, 0xE00FF}, {0xE01F0, 0x10FFFF},
});

bool is_printable(char32_t code) noexcept {
  const auto* range = std::lower_bound(kNotPrintable.begin(), kNotPrintable.end(), code,
                                       [](const Range& r, char32_t c) { return r.last < c; });
  return range == kNotPrintable.end() || code < range->first;
}

char choose_quote(std::string_view text) noexcept {
  const bool prefer_double =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  return prefer_double ? '"' : '\'';
}

/// Escapes what both strings and bytes escape by a letter; false for any other character.
bool append_simple_escape(std::string& out, char c, char quote) {
  switch (c) {
    case '\n':
      out += "\\n";
      return true;
    case '\r':
      out += "\\r";
      return true;
    case '\t':
      out += "\\t";
      return true;
    default:
      break;
  }
  if (c == '\\' || c == quote) {
    out += '\\';
    out += c;
    return true;
  }
  return false;
}

void append_code_escape(std::string& out, char32_t code) {
  const auto number = static_cast<std::uint32_t>(code);
  out += number <= 0xFF     ? fmt::format("\\x{:02x}", number)
         : number <= 0xFFFF ? fmt::format("\\u{:04x}", number)
                            : fmt::format("\\U{:08x}", number);
}

}  // namespace

std::string python_repr(std::string_view text) {
  const char quote = choose_quote(text);
  std::string out(1, quote);
  std::size_t position = 0;
  while (position < text.size()) {
    const std::size_t start = position;
    if (append_simple_escape(out, text[start], quote)) {
      ++position;
      continue;
    }
    const std::optional<char32_t> code = decode_utf8(text, position);
    if (!code) {
      append_code_escape(out, static_cast<unsigned char>(text[start]));
    } else if (!is_printable(*code)) {
      append_code_escape(out, *code);
    } else {
      out += text.substr(start, position - start);
    }
  }
  out += quote;
  return out;
}

std::string python_repr_bytes(std::string_view bytes) {
  const char quote = choose_quote(bytes);
  std::string out{'b', quote};
  for (const char c : bytes) {
    if (append_simple_escape(out, c, quote)) {
      continue;
    }
    if (c >= 0x20 && c < 0x7F) {
      out += c;
    } else {
      append_code_escape(out, static_cast<unsigned char>(c));
    }
  }
  out += quote;
  return out;
}

std::string python_repr(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  // The shortest digits that read back to the same number, as d.ddde±xx.
  std::array<char, 32> buffer{};
  const auto end =
      std::to_chars(buffer.begin(), buffer.end(), std::abs(value), std::chars_format::scientific)
          .ptr;
  const std::string_view text(buffer.begin(), static_cast<std::size_t>(end - buffer.begin()));
  const std::size_t mark = text.find('e');
  const int exponent = std::atoi(text.data() + mark + 1);
  std::string digits(text.substr(0, 1));
  if (mark > 2) {
    digits += text.substr(2, mark - 2);
  }
  const int count = static_cast<int>(digits.size());
  const std::string sign = std::signbit(value) ? "-" : "";
  // Python writes an exponent below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) {
    if (count > 1) {
      digits.insert(1, ".");
    }
    return fmt::format("{}{}e{}{:02}", sign, digits, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  }
  if (count <= exponent + 1) {
    return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  }
  return sign + digits.insert(static_cast<std::size_t>(exponent) + 1, ".");
}

}  // namespace graphtune
