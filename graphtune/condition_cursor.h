#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/utf8.h"

namespace graphtune {

/// Reads a condition's text from left to right; spaces between its parts are skipped. Borrows it.
class ConditionCursor {
 public:
  explicit ConditionCursor(std::string_view text) : text_(text) {}

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_name(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }

  [[nodiscard]] bool at_end() {
    skip_spaces();
    return place_ == text_.size();
  }
  [[nodiscard]] bool at_digit() { return !at_end() && is_digit(text_[place_]); }

  /// Takes a sign; `*` is not the first half of `**`.
  bool take(std::string_view sign) {
    skip_spaces();
    const std::string_view rest = text_.substr(place_);
    if (!rest.starts_with(sign) || (sign == "*" && rest.starts_with("**"))) {
      return false;
    }
    place_ += sign.size();
    return true;
  }

  bool take_word(std::string_view word) {
    skip_spaces();
    const std::string_view rest = text_.substr(place_);
    if (!rest.starts_with(word) || (rest.size() > word.size() && is_name(rest[word.size()]))) {
      return false;
    }
    place_ += word.size();
    return true;
  }

  void expect(std::string_view sign) {
    if (!take(sign)) {
      fail(fmt::format("{} was expected", sign));
    }
  }

  std::string_view take_while(bool (*predicate)(char)) {
    skip_spaces();
    const std::size_t begin = place_;
    while (place_ < text_.size() && predicate(text_[place_])) {
      ++place_;
    }
    return text_.substr(begin, place_ - begin);
  }

  [[nodiscard]] std::size_t size() const { return text_.size(); }

  static std::string shortened(std::string_view text) {
    constexpr std::size_t kShown = 100;
    return text.size() <= kShown ? std::string(text) : fmt::format("{}…", cut_utf8(text, kShown));
  }

  /// Throws ValueError. `back`: how far before the current place the trouble is.
  [[noreturn]] void fail(std::string_view why, std::size_t back = 0) const {
    throw ValueError(
        fmt::format("'{}' is no condition on sizes such as \"b*s0 <= 20\": at character {}: {}",
                    shortened(text_), place_ - back, why));
  }

 private:
  void skip_spaces() {
    while (place_ < text_.size() && text_[place_] == ' ') {
      ++place_;
    }
  }

  std::string_view text_;
  std::size_t place_ = 0;
};

}  // namespace graphtune
