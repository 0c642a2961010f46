#include "graphtune/size_expr.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

/// Reads one expression; every failure names the whole text.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), rest_(text) {}

  SizeExpr parse() {
    SizeExpr expr;
    bool offset_seen = false;
    do {
      const bool negative = take('-');
      if (!negative && rest_.size() != text_.size() && !take('+')) {
        fail("expected + or -");
      }
      read_term(expr, negative, offset_seen);
    } while (!rest_.empty());
    std::sort(expr.terms.begin(), expr.terms.end());
    const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
    if (std::adjacent_find(expr.terms.begin(), expr.terms.end(), same) != expr.terms.end()) {
      fail("a symbol occurs twice");
    }
    return expr;
  }

 private:
  void read_term(SizeExpr& expr, bool negative, bool& offset_seen) {
    std::int64_t value = 1;
    if (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      value = read_number<std::int64_t>();
      if (!take('*')) {
        if (offset_seen) {
          fail("there are two constants");
        }
        offset_seen = true;
        expr.offset = negative ? -value : value;
        return;
      }
    }
    if (value == 0) {
      fail("a coefficient is 0");
    }
    expr.terms.emplace_back(read_symbol(), negative ? -value : value);
  }

  std::uint32_t read_symbol() {
    if (take('b')) {
      return 0;
    }
    if (!take('s') || rest_.empty() || rest_.front() < '0' || rest_.front() > '9') {
      fail("expected a number, b, or s and a number");
    }
    const auto index = read_number<std::uint32_t>();
    if (index == std::numeric_limits<std::uint32_t>::max()) {
      fail("a symbol's number is too large");
    }
    return index + 1;
  }

  template <typename T>
  T read_number() {
    T value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) {
      fail("a number is too large");
    }
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) {
      return false;
    }
    rest_.remove_prefix(1);
    return true;
  }

  [[noreturn]] void fail(std::string_view why) const {
    throw ValueError(
        fmt::format("'{}' is no size expression such as \"8\", \"2*b\" or \"s0+s1\": {}",
                    text_.substr(0, 100), why));
  }

  std::string_view text_;
  std::string_view rest_;
};

std::int64_t wrapping_add(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

std::int64_t wrapping_multiply(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

}  // namespace

std::string symbol_name(std::uint32_t symbol) {
  return symbol == 0 ? "b" : "s" + std::to_string(symbol - 1);
}

std::string SizeExpr::to_string() const {
  std::string out;
  for (const auto& [symbol, coefficient] : terms) {
    if (coefficient == -1) {
      out += '-';
    } else {
      if (coefficient > 0 && !out.empty()) {
        out += '+';
      }
      if (coefficient != 1) {
        out += std::to_string(coefficient) + '*';
      }
    }
    out += symbol_name(symbol);
  }
  if (offset != 0 || terms.empty()) {
    if (offset > 0 && !out.empty()) {
      out += '+';
    }
    out += std::to_string(offset);
  }
  return out;
}

SizeExpr SizeExpr::parse(std::string_view text) { return Parser(text).parse(); }

std::int64_t SizeExpr::evaluate(std::span<const std::int64_t> symbols) const noexcept {
  std::int64_t value = offset;
  for (const auto& [symbol, coefficient] : terms) {
    value = wrapping_add(value, wrapping_multiply(coefficient, symbols[symbol]));
  }
  return value;
}

SizeExpr operator+(const SizeExpr& a, const SizeExpr& b) {
  SizeExpr sum{wrapping_add(a.offset, b.offset), a.terms};
  for (const auto& term : b.terms) {
    const auto place = std::lower_bound(
        sum.terms.begin(), sum.terms.end(), term.first,
        [](const auto& known, std::uint32_t symbol) { return known.first < symbol; });
    if (place == sum.terms.end() || place->first != term.first) {
      sum.terms.insert(place, term);
    } else if ((place->second = wrapping_add(place->second, term.second)) == 0) {
      sum.terms.erase(place);
    }
  }
  return sum;
}

SizeExpr operator*(std::int64_t factor, const SizeExpr& expr) {
  SizeExpr product{wrapping_multiply(factor, expr.offset), {}};
  if (factor != 0) {
    product.terms = expr.terms;
    for (auto& term : product.terms) {
      term.second = wrapping_multiply(factor, term.second);
    }
  }
  return product;
}

}  // namespace graphtune
