#include "graphtune/digest.h"

#include <memory>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "graphtune/error.h"
#include "graphtune/file.h"

namespace graphtune {
namespace {

class Sha256Stream {
 public:
  Sha256Stream() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    if (context_ == nullptr || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {
      fail();
    }
  }

  void update(const void* data, std::size_t size) {
    if (EVP_DigestUpdate(context_.get(), data, size) != 1) {
      fail();
    }
  }

  Sha256 finish() {
    Sha256 digest{};
    if (EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) != 1) {
      fail();
    }
    return digest;
  }

 private:
  [[noreturn]] static void fail() {
    throw Error("OpenSSL could not compute a SHA-256: is the installed libcrypto complete?");
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return -1;
}

}  // namespace

Sha256 sha256(std::string_view bytes) {
  Sha256Stream stream;
  stream.update(bytes.data(), bytes.size());
  return stream.finish();
}

Sha256 sha256_file(const std::filesystem::path& path) {
  InputFile file(path);
  Sha256Stream stream;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (const std::size_t count = file.read_some(buffer.data(), buffer.size())) {
    stream.update(buffer.data(), count);
  }
  return stream.finish();
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string to_hex(std::string_view bytes) {
  return to_hex(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}

std::string from_hex(std::string_view digits) {
  if (digits.size() % 2 != 0) {
    throw ValueError(
        fmt::format("{} hexadecimal digits are not a whole number of bytes", digits.size()));
  }
  std::string bytes;
  bytes.reserve(digits.size() / 2);
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const int high = hex_digit(digits[i]);
    const int low = hex_digit(digits[i + 1]);
    if (high < 0 || low < 0) {
      throw ValueError(fmt::format("no hexadecimal digit at position {}", high < 0 ? i : i + 1));
    }
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

}  // namespace graphtune
