#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace graphtune {

static_assert(std::endian::native == std::endian::little,
              "keys and files are written in the machine's byte order");

/// Appends binary data to a string without a capacity check a byte. The string is too long until
/// finish().
class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out), size_(out.size()) {}

  void byte(std::uint8_t value) { *reserve(1) = static_cast<char>(value), ++size_; }

  void bytes(std::string_view value) {
    std::memcpy(reserve(value.size()), value.data(), value.size());
    size_ += value.size();
  }

  void fixed64(std::uint64_t value) {
    std::memcpy(reserve(sizeof value), &value, sizeof value);
    size_ += sizeof value;
  }

  /// LEB128: 7 bits a byte, the lowest first.
  void varint(std::uint64_t value) {
    char* target = reserve(10);
    std::size_t count = 0;
    for (; value >= 0x80U; value >>= 7U) {
      target[count++] = static_cast<char>(value | 0x80U);
    }
    target[count++] = static_cast<char>(value);
    size_ += count;
  }

  /// Length and bytes.
  void text(std::string_view value) {
    varint(value.size());
    bytes(value);
  }

  void finish() { out_.resize(size_); }

 private:
  char* reserve(std::size_t count) {
    if (out_.size() - size_ < count) {
      out_.resize(std::max(out_.size() * 2, size_ + count + 128));
    }
    return out_.data() + size_;
  }

  std::string& out_;
  std::size_t size_;
};

}  // namespace graphtune
