#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace graphtune {

static_assert(std::endian::native == std::endian::little,
              "keys and files are written in the machine's byte order");

/// Writes binary data where the caller has made enough room. (While it is a local variable the
/// compiler keeps the position in a register, which no check of a string's capacity allows.)
class ByteCursor {
 public:
  static constexpr std::size_t kMaxVarint = 10;

  explicit ByteCursor(char* position) : position_(position) {}
  [[nodiscard]] char* position() const { return position_; }

  void byte(std::uint8_t value) { *position_++ = static_cast<char>(value); }

  void bytes(std::string_view value) {
    std::memcpy(position_, value.data(), value.size());
    position_ += value.size();
  }

  void fixed64(std::uint64_t value) {
    std::memcpy(position_, &value, sizeof value);
    position_ += sizeof value;
  }

  /// LEB128: 7 bits a byte, the lowest first.
  void varint(std::uint64_t value) {
    for (; value >= 0x80U; value >>= 7U) {
      byte(static_cast<std::uint8_t>(value | 0x80U));
    }
    byte(static_cast<std::uint8_t>(value));
  }

  /// Length and bytes.
  void text(std::string_view value) {
    varint(value.size());
    bytes(value);
  }

 private:
  char* position_;
};

}  // namespace graphtune
