#include "graphtune/symbol_search.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "graphtune/mix.h"

namespace graphtune {
namespace {

/// Needed to order columns by their total, and to test independence exactly.
__extension__ using Int128 = __int128;

/// Observation i weighs mix64(i): the hash of a difference of columns is the difference of their
/// hashes.
std::uint64_t linear_hash(const SizeColumn& column) {
  std::uint64_t hash = 0;
  for (std::size_t row = 0; row < column.size(); ++row) {
    hash += mix64(row) * static_cast<std::uint64_t>(column[row]);
  }
  return hash;
}

bool has_three_values(const SizeColumn& column) {
  const std::int64_t first = column.front();
  std::optional<std::int64_t> second;
  for (const std::int64_t value : column) {
    if (value == first || value == second) {
      continue;
    }
    if (second) {
      return true;
    }
    second = value;
  }
  return false;
}

bool is_sum(const SizeColumn& sum, const SizeColumn& x, const SizeColumn& y) {
  for (std::size_t row = 0; row < sum.size(); ++row) {
    std::int64_t value = 0;
    if (__builtin_add_overflow(x[row], y[row], &value) || value != sum[row]) {
      return false;
    }
  }
  return true;
}

/// True when the points (x, y) do not all lie on one line.
bool is_independent(const SizeColumn& x, const SizeColumn& y) {
  const auto difference = [](const SizeColumn& column, std::size_t row) {
    return static_cast<Int128>(column[row]) - column[0];
  };
  std::size_t second = 1;
  while (second < x.size() && x[second] == x[0] && y[second] == y[0]) {
    ++second;
  }
  for (std::size_t row = second + 1; row < x.size(); ++row) {
    if (difference(x, second) * difference(y, row) != difference(x, row) * difference(y, second)) {
      return true;
    }
  }
  return false;
}

bool has_pairs(const SizeColumn& x, const SizeColumn& y, std::size_t wanted) {
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t row = 0; row < x.size() && pairs.size() < wanted; ++row) {
    pairs.emplace(x[row], y[row]);
  }
  return pairs.size() >= wanted;
}

/// Finds expressions for columns that are given from the smallest to the largest, in terms of those
/// before.
class Search {
 public:
  Search(std::size_t column_count, bool with_sums)
      : with_sums_(with_sums),
        // 3 up to eight columns, one more with each doubling.
        pairs_wanted_(
            std::max<std::size_t>(3, static_cast<std::size_t>(std::bit_width(column_count)) - 1)) {}

  /// The expression of `column` by those before, if there is one.
  [[nodiscard]] std::optional<SizeExpr> find(const SizeColumn& column) const {
    if (has_three_values(column)) {
      if (auto expr = find_multiple(column)) {
        return expr;
      }
      if (auto expr = find_offset(column)) {
        return expr;
      }
    }
    return with_sums_ ? find_sum(column) : std::nullopt;
  }

  void add(const SizeColumn& column, SizeExpr expr, bool is_symbol) {
    const std::size_t index = known_.size();
    known_.push_back({&column, linear_hash(column), std::move(expr), is_symbol});
    by_ray_[ray_hash(column, divisor(column))].push_back(index);
    by_steps_[steps_hash(column)].push_back(index);
    by_hash_[known_.back().hash].push_back(index);
  }

 private:
  struct Known {
    const SizeColumn* column;
    std::uint64_t hash;
    SizeExpr expr;
    bool is_symbol;
  };
  using Index = std::unordered_map<std::uint64_t, std::vector<std::size_t>>;

  static std::int64_t divisor(const SizeColumn& column) {
    std::int64_t result = 0;
    for (const std::int64_t value : column) {
      result = std::gcd(result, value);
    }
    return result;
  }

  // Columns that are multiples of each other are equal once divided by their greatest common
  // divisors …
  static std::uint64_t ray_hash(const SizeColumn& column, std::int64_t divisor) {
    std::uint64_t hash = 0;
    for (std::size_t row = 0; row < column.size(); ++row) {
      hash += mix64(row) * static_cast<std::uint64_t>(column[row] / divisor);
    }
    return hash;
  }

  // … and those a fixed step apart once their first value is taken off.
  static std::uint64_t steps_hash(const SizeColumn& column) {
    std::uint64_t hash = 0;
    for (std::size_t row = 0; row < column.size(); ++row) {
      hash += mix64(row) * static_cast<std::uint64_t>(column[row] - column[0]);
    }
    return hash;
  }

  [[nodiscard]] static std::span<const std::size_t> look_up(const Index& index,
                                                            std::uint64_t hash) {
    const auto found = index.find(hash);
    return found == index.end() ? std::span<const std::size_t>() : std::span(found->second);
  }

  [[nodiscard]] std::optional<SizeExpr> find_multiple(const SizeColumn& column) const {
    const std::int64_t own = divisor(column);
    for (const std::size_t index : look_up(by_ray_, ray_hash(column, own))) {
      const SizeColumn& base = *known_[index].column;
      const std::int64_t other = divisor(base);
      if (own % other != 0 || own == other) {
        continue;
      }
      const auto agree = [&](std::int64_t a, std::int64_t b) { return a / own == b / other; };
      if (std::equal(column.begin(), column.end(), base.begin(), agree)) {
        return own / other * known_[index].expr;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<SizeExpr> find_offset(const SizeColumn& column) const {
    for (const std::size_t index : look_up(by_steps_, steps_hash(column))) {
      const SizeColumn& base = *known_[index].column;
      const std::int64_t offset = column[0] - base[0];
      const auto agree = [offset](std::int64_t a, std::int64_t b) { return a - b == offset; };
      if (offset > 0 && std::equal(column.begin(), column.end(), base.begin(), agree)) {
        return known_[index].expr + SizeExpr::constant(offset);
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<SizeExpr> find_sum(const SizeColumn& column) const {
    const std::uint64_t hash = linear_hash(column);
    const Known* best_x = nullptr;
    const Known* best_y = nullptr;
    int best_symbols = -1;
    for (std::size_t i = 0; i < known_.size(); ++i) {
      const Known& x = known_[i];
      for (const std::size_t j : look_up(by_hash_, hash - x.hash)) {
        const Known& y = known_[j];
        // A sum of two symbols is simpler than one of expressions.
        const int symbols = static_cast<int>(x.is_symbol) + static_cast<int>(y.is_symbol);
        if (j > i && symbols > best_symbols && is_sum(column, *x.column, *y.column) &&
            is_independent(*x.column, *y.column) &&
            has_pairs(*x.column, *y.column, pairs_wanted_)) {
          best_x = &x;
          best_y = &y;
          best_symbols = symbols;
        }
      }
    }
    return best_x == nullptr ? std::nullopt : std::optional(best_x->expr + best_y->expr);
  }

  std::vector<Known> known_;
  Index by_ray_;
  Index by_steps_;
  Index by_hash_;
  bool with_sums_;
  std::size_t pairs_wanted_;
};

/// Indices from the column with the smallest total on: a sum, a multiple or an offset comes after
/// what it is made of.
std::vector<std::size_t> by_total(std::span<const SizeColumn> columns) {
  std::vector<Int128> totals(columns.size(), 0);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (const std::int64_t value : columns[i]) {
      totals[i] += value;
    }
  }
  std::vector<std::size_t> order(columns.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return totals[a] < totals[b]; });
  return order;
}

}  // namespace

std::vector<SizeExpr> name_columns(std::span<const SizeColumn> columns, const SizeColumn* batch) {
  // Numbers for symbols are given at the end; until then column i's own symbol is i + 1.
  std::vector<SizeExpr> exprs(columns.size());
  std::vector<bool> is_symbol(columns.size(), false);
  Search search(columns.size(), columns.size() <= kMaxSumColumns);
  if (batch != nullptr &&
      std::any_of(batch->begin(), batch->end(), [](std::int64_t size) { return size > 0; })) {
    search.add(*batch, SizeExpr::symbol(0), true);
  }
  for (const std::size_t index : by_total(columns)) {
    std::optional<SizeExpr> expr = search.find(columns[index]);
    is_symbol[index] = !expr;
    exprs[index] =
        expr ? std::move(*expr) : SizeExpr::symbol(static_cast<std::uint32_t>(index) + 1);
    search.add(columns[index], exprs[index], is_symbol[index]);
  }
  std::vector<std::uint32_t> numbers(columns.size() + 1, 0);
  std::uint32_t next = 1;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    numbers[i + 1] = is_symbol[i] ? next++ : 0;
  }
  for (SizeExpr& expr : exprs) {
    for (auto& term : expr.terms) {
      term.first = numbers[term.first];
    }
  }
  return exprs;
}

}  // namespace graphtune
