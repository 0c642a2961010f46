#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "graphtune/export.h"

namespace graphtune {

/// The code point at `position`, which moves past it; nothing (and `position` moves by one byte)
/// where the bytes are not UTF-8. Lone surrogates, which Python strings may hold, are decoded too.
[[nodiscard]] GRAPHTUNE_API std::optional<char32_t> decode_utf8(std::string_view text,
                                                                std::size_t& position) noexcept;

/// True when all of `text` is UTF-8 in the strict sense: what JSON can hold.
[[nodiscard]] GRAPHTUNE_API bool is_utf8(std::string_view text) noexcept;

/// The beginning of `text`, of at most `size` bytes, that does not end within a character.
[[nodiscard]] GRAPHTUNE_API std::string_view cut_utf8(std::string_view text,
                                                      std::size_t size) noexcept;

/// For tables and messages: the text as it is up to kMaxShown bytes, else its beginning and its end
/// with "…" between.
inline constexpr std::size_t kMaxShown = 200;
[[nodiscard]] GRAPHTUNE_API std::string shorten_middle(std::string_view text);

}  // namespace graphtune
