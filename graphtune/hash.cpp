#include "graphtune/hash.h"

#include <bit>
#include <cstring>

namespace graphtune {
namespace {

static_assert(std::endian::native == std::endian::little);

__extension__ using UInt128 = unsigned __int128;

// wyhash's default secret: odd numbers with as many ones as zeros in each byte.
constexpr std::uint64_t kSecret0 = 0x2d358dccaa6c78a5;
constexpr std::uint64_t kSecret1 = 0x8bb84b93962eacc9;
constexpr std::uint64_t kSecret2 = 0x4b33a62ed433d4a3;
constexpr std::uint64_t kSecret3 = 0x4d5a2da51de1aa47;

std::uint64_t read64(const char* p) noexcept {
  std::uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

std::uint64_t read32(const char* p) noexcept {
  std::uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

/// First, middle and last byte of 1 to 3 bytes.
std::uint64_t read_few(const char* p, std::size_t size) noexcept {
  const auto at = [p](std::size_t i) {
    return static_cast<std::uint64_t>(static_cast<unsigned char>(p[i]));
  };
  return at(0) << 16 | at(size >> 1) << 8 | at(size - 1);
}

/// Both halves of the product, folded.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const UInt128 product = static_cast<UInt128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed) noexcept {
  const char* p = bytes.data();
  const std::size_t size = bytes.size();
  seed ^= mix(seed ^ kSecret0, kSecret1);
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  if (size > 16) {
    std::size_t rest = size;
    if (rest >= 48) {
      std::uint64_t lane1 = seed;
      std::uint64_t lane2 = seed;
      do {
        seed = mix(read64(p) ^ kSecret1, read64(p + 8) ^ seed);
        lane1 = mix(read64(p + 16) ^ kSecret2, read64(p + 24) ^ lane1);
        lane2 = mix(read64(p + 32) ^ kSecret3, read64(p + 40) ^ lane2);
        p += 48;
        rest -= 48;
      } while (rest >= 48);
      seed ^= lane1 ^ lane2;
    }
    for (; rest > 16; rest -= 16, p += 16) {
      seed = mix(read64(p) ^ kSecret1, read64(p + 8) ^ seed);
    }
    a = read64(p + rest - 16);
    b = read64(p + rest - 8);
  } else if (size >= 4) {
    const std::size_t middle = (size >> 3) << 2;
    a = read32(p) << 32 | read32(p + middle);
    b = read32(p + size - 4) << 32 | read32(p + size - 4 - middle);
  } else if (size > 0) {
    a = read_few(p, size);
  }
  const UInt128 product = static_cast<UInt128>(a ^ kSecret1) * (b ^ seed);
  a = static_cast<std::uint64_t>(product);
  b = static_cast<std::uint64_t>(product >> 64);
  return mix(a ^ kSecret0 ^ size, b ^ kSecret1);
}

}  // namespace graphtune
