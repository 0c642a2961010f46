#pragma once

#include <cstdint>

namespace graphtune {

/// Spreads all bits of a number over all bits of the result (splitmix64's finaliser); the same on
/// every machine.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t value) noexcept {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

}  // namespace graphtune
