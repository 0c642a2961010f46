#pragma once

#include <cstdint>
#include <string_view>

#include "graphtune/export.h"

namespace graphtune {

/// 64-bit hash of bytes: the algorithm wyhash, final version 4.2, by Wang Yi
/// (https://github.com/wangyi-fudan/wyhash, public domain), which passes SMHasher. Not for anything
/// that must resist an attacker.
[[nodiscard]] GRAPHTUNE_API std::uint64_t hash_bytes(std::string_view bytes,
                                                     std::uint64_t seed = 0) noexcept;

}  // namespace graphtune
