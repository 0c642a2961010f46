#include "graphtune/utf8.h"

namespace graphtune {
namespace {

bool is_continuation(char c) noexcept { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

std::optional<char32_t> decode_utf8(std::string_view text, std::size_t& position) noexcept {
  const std::size_t start = position++;
  const auto lead = static_cast<unsigned char>(text[start]);
  if (lead < 0x80U) {
    return lead;
  }
  // 0xC0 and 0xC1 could only begin overlong forms; nothing above 0xF4 is a code point.
  if (lead < 0xC2U || lead > 0xF4U) {
    return std::nullopt;
  }
  const std::size_t size = lead < 0xE0U ? 2 : lead < 0xF0U ? 3 : 4;
  if (text.size() - start < size) {
    return std::nullopt;
  }
  char32_t code = lead & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[start + i])) {
      return std::nullopt;
    }
    code = (code << 6U) | (static_cast<unsigned char>(text[start + i]) & 0x3FU);
  }
  const bool overlong = (size == 3 && code < 0x800U) || (size == 4 && code < 0x10000U);
  if (overlong || code > 0x10FFFFU) {
    return std::nullopt;
  }
  position = start + size;
  return code;
}

bool is_utf8(std::string_view text) noexcept {
  std::size_t position = 0;
  while (position < text.size()) {
    const std::optional<char32_t> code = decode_utf8(text, position);
    if (!code || (*code >= 0xD800U && *code <= 0xDFFFU)) {
      return false;
    }
  }
  return true;
}

std::string_view cut_utf8(std::string_view text, std::size_t size) noexcept {
  if (text.size() <= size) {
    return text;
  }
  std::size_t end = size;
  // At most three steps: more continuation bytes in a row are no UTF-8, and any cut is as good.
  for (int i = 0; i < 3 && end > 0 && is_continuation(text[end]); ++i) {
    --end;
  }
  return text.substr(0, is_continuation(text[end]) ? size : end);
}

std::string shorten_middle(std::string_view text) {
  if (text.size() <= kMaxShown) {
    return std::string(text);
  }
  constexpr std::size_t kEnd = kMaxShown / 4;
  std::string_view end = text.substr(text.size() - kEnd);
  while (!end.empty() && (static_cast<unsigned char>(end.front()) & 0xC0U) == 0x80U) {
    end.remove_prefix(1);  // the rest of a character
  }
  std::string shown(cut_utf8(text, kMaxShown - kEnd));
  shown += "…";
  shown += end;
  return shown;
}

}  // namespace graphtune
