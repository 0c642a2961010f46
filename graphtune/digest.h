#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "graphtune/export.h"

namespace graphtune {

using Sha256 = std::array<std::uint8_t, 32>;

[[nodiscard]] GRAPHTUNE_API Sha256 sha256(std::string_view bytes);
/// Reads the file once, in pieces. Throws Error naming the file and the reason when it can't be
/// read.
[[nodiscard]] GRAPHTUNE_API Sha256 sha256_file(const std::filesystem::path& path);

/// Lower-case hexadecimal digits, two a byte.
[[nodiscard]] GRAPHTUNE_API std::string to_hex(std::span<const std::uint8_t> bytes);
[[nodiscard]] GRAPHTUNE_API std::string to_hex(std::string_view bytes);
/// Inverse of to_hex (upper case is accepted too). Throws ValueError for an odd count or another
/// character.
[[nodiscard]] GRAPHTUNE_API std::string from_hex(std::string_view digits);

}  // namespace graphtune
