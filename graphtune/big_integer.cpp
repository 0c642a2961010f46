#include "graphtune/big_integer.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

constexpr std::uint32_t kDecimalBase = 1'000'000'000;
constexpr std::size_t kDecimalDigits = 9;
// Converting takes time in the square of the digits: 0.1 s for these, so that no argument can hold
// up a call.
constexpr std::size_t kMaxDecimalDigits = 100'000;

bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_hexadecimal(char c) {
  return is_decimal(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

[[noreturn]] void throw_no_integer(std::string_view digits) {
  throw ValueError(
      fmt::format("'{}' is not an integer in decimal or 0x… digits", cut_utf8(digits, 64)));
}

std::string_view without_zeros(std::string_view digits) {
  const std::size_t first = digits.find_first_not_of('0');
  return first == std::string_view::npos ? std::string_view{} : digits.substr(first);
}

/// Limbs of 32 bits, the lowest first.
std::vector<std::uint32_t> limbs_from_decimal(std::string_view digits) {
  std::vector<std::uint32_t> limbs;
  limbs.reserve(digits.size() / kDecimalDigits + 1);
  for (std::size_t i = 0; i < digits.size();) {
    const std::size_t count = std::min(kDecimalDigits, digits.size() - i);
    std::uint64_t carry = 0;
    std::uint64_t base = 1;
    for (std::size_t k = 0; k < count; ++k, ++i) {
      carry = carry * 10 + static_cast<std::uint64_t>(digits[i] - '0');
      base *= 10;
    }
    for (std::uint32_t& limb : limbs) {
      carry += limb * base;
      limb = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) {
      limbs.push_back(static_cast<std::uint32_t>(carry));
    }
  }
  return limbs;
}

std::string hexadecimal(const std::vector<std::uint32_t>& limbs) {
  std::string text;
  for (std::size_t i = limbs.size(); i-- > 0;) {
    text += text.empty() ? fmt::format("{:x}", limbs[i]) : fmt::format("{:08x}", limbs[i]);
  }
  return text;
}

std::vector<std::uint32_t> limbs_from_hexadecimal(std::string_view digits) {
  std::vector<std::uint32_t> limbs;
  while (!digits.empty()) {
    const std::size_t start = digits.size() > 8 ? digits.size() - 8 : 0;
    limbs.push_back(
        static_cast<std::uint32_t>(std::stoul(std::string(digits.substr(start)), nullptr, 16)));
    digits = digits.substr(0, start);
  }
  return limbs;
}

}  // namespace

std::string canonical_integer(std::string_view digits) {
  std::string_view rest = digits;
  const bool negative = !rest.empty() && rest.front() == '-';
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) {
    rest.remove_prefix(1);
  }
  std::string text;
  if (rest.size() > 2 && rest[0] == '0' && (rest[1] == 'x' || rest[1] == 'X')) {
    rest.remove_prefix(2);
    if (!std::all_of(rest.begin(), rest.end(), is_hexadecimal)) {
      throw_no_integer(digits);
    }
    text = without_zeros(rest);
    std::transform(text.begin(), text.end(), text.begin(), [](char c) {
      return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    });
  } else {
    if (rest.empty() || !std::all_of(rest.begin(), rest.end(), is_decimal)) {
      throw_no_integer(digits);
    }
    rest = without_zeros(rest);
    if (rest.size() > kMaxDecimalDigits) {
      throw ValueError(
          fmt::format("an integer of {} decimal digits: give it in hexadecimal", rest.size()));
    }
    text = hexadecimal(limbs_from_decimal(rest));
  }
  if (text.empty()) {
    return "0x0";
  }
  return (negative ? "-0x" : "0x") + text;
}

std::string decimal_integer(std::string_view canonical) {
  const bool negative = canonical.substr(0, 1) == "-";
  std::vector<std::uint32_t> limbs = limbs_from_hexadecimal(canonical.substr(negative ? 3 : 2));
  std::vector<std::uint32_t> groups;  // of nine digits, the lowest first
  while (!limbs.empty()) {
    std::uint64_t rest = 0;
    for (std::size_t i = limbs.size(); i-- > 0;) {
      rest = (rest << 32) | limbs[i];
      limbs[i] = static_cast<std::uint32_t>(rest / kDecimalBase);
      rest %= kDecimalBase;
    }
    groups.push_back(static_cast<std::uint32_t>(rest));
    while (!limbs.empty() && limbs.back() == 0) {
      limbs.pop_back();
    }
  }
  std::string text = negative ? "-" : "";
  for (std::size_t i = groups.size(); i-- > 0;) {
    text += i + 1 == groups.size() ? fmt::format("{}", groups[i]) : fmt::format("{:09}", groups[i]);
  }
  return groups.empty() ? "0" : text;
}

}  // namespace graphtune
