#pragma once

#include <string>
#include <string_view>

namespace graphtune {

/// One spelling for each integer: `0x1f`, `-0x1f`, without leading zeros. Takes decimal or 0x…
/// digits with an optional sign. Throws ValueError for anything else.
[[nodiscard]] std::string canonical_integer(std::string_view digits);

/// Inverse, in decimal, of what canonical_integer gives.
[[nodiscard]] std::string decimal_integer(std::string_view canonical);

}  // namespace graphtune
