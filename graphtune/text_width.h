#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "graphtune/export.h"

namespace graphtune {

/// One column for each byte, and nothing to escape.
[[nodiscard]] GRAPHTUNE_API bool is_printable_ascii(std::string_view text) noexcept;

/// Columns that UTF-8 text takes in a terminal: East Asian wide characters and emoji count two,
/// combining marks none.
[[nodiscard]] GRAPHTUNE_API std::size_t text_width(std::string_view text) noexcept;

/// The text on one line and safe to print: line breaks, tabs and other control characters,
/// characters that reverse the writing direction, and bytes that are no UTF-8 are escaped as in a
/// Python string.
[[nodiscard]] GRAPHTUNE_API std::string escape_controls(std::string_view text);

}  // namespace graphtune
