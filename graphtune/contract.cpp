#include "graphtune/contract.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

/// Whether a symbol can be read off a size.
bool is_readable(const SizeExpr& size) {
  return size.terms.size() == 1 && size.terms[0].second >= 1;
}

}  // namespace

Contract::Contract(std::vector<std::vector<SizeExpr>> sizes, std::vector<SymbolRange> symbols,
                   std::vector<IndexRange> indices, std::vector<SizeCondition> conditions)
    : sizes_(std::move(sizes)),
      symbols_(std::move(symbols)),
      indices_(std::move(indices)),
      conditions_(std::move(conditions)) {
  check_symbols();
  for (std::uint32_t tensor = 0; tensor < sizes_.size(); ++tensor) {
    if (sizes_[tensor].size() > kMaxRank) {
      throw ValueError(fmt::format("contract: tensor {} has {} axes, at most {} are possible",
                                   tensor, sizes_[tensor].size(), kMaxRank));
    }
    for (std::uint32_t axis = 0; axis < sizes_[tensor].size(); ++axis) {
      check_extremes(tensor, axis);
    }
  }
  for (const IndexRange& range : indices_) {
    if (range.tensor >= sizes_.size()) {
      throw ValueError(
          fmt::format("contract: an index range is for tensor {}, but there are {} tensors",
                      range.tensor, sizes_.size()));
    }
    if (range.low > range.high) {
      throw ValueError(fmt::format("contract: the index range {} to {} of tensor {} is empty",
                                   range.low, range.high, range.tensor));
    }
  }
  compile();
  check_conditions();
}

Contract Contract::from_metadata(const SampleMetadata& inputs) {
  const std::vector<AxisFacts>& axes = inputs.learner().axes();
  const std::vector<std::uint32_t>& offsets = inputs.axis_offsets();
  std::vector<std::vector<SizeExpr>> sizes(inputs.tensor_count());
  for (std::size_t tensor = 0; tensor < sizes.size(); ++tensor) {
    for (std::uint32_t axis = offsets[tensor]; axis < offsets[tensor + 1]; ++axis) {
      sizes[tensor].push_back(axes[axis].size);
    }
  }
  return Contract(std::move(sizes), inputs.learner().symbols(), {});
}

void Contract::check_symbols() const {
  for (std::uint32_t symbol = 0; symbol < symbols_.size(); ++symbol) {
    const SymbolRange& range = symbols_[symbol];
    if (range.min < 0 || range.min > range.max) {
      throw ValueError(fmt::format("contract: the range of {} is {} to {}: it must not be {}",
                                   symbol_name(symbol), range.min, range.max,
                                   range.min < 0 ? "negative" : "empty"));
    }
  }
}

/// Refuses sizes that leave 0 … 2^63-1 anywhere in the symbols' ranges, so that evaluating a size
/// can't overflow.
void Contract::check_extremes(std::uint32_t tensor, std::uint32_t axis) const {
  const SizeExpr& size = sizes_[tensor][axis];
  const auto refuse = [&](const std::string& what) {
    throw ValueError(fmt::format("contract: axis {} of tensor {}: {}", axis, tensor, what));
  };
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  bool overflow = size.offset == kMin;
  std::int64_t lowest = size.offset;
  std::int64_t magnitude = overflow ? 0 : std::abs(size.offset);  // of all partial sums
  for (const auto& [symbol, coefficient] : size.terms) {
    if (symbol >= symbols_.size()) {
      refuse(fmt::format("its size refers to {}, which has no range", symbol_name(symbol)));
    }
    const SymbolRange& range = symbols_[symbol];
    std::int64_t at_min = 0;
    std::int64_t at_max = 0;
    overflow |= __builtin_mul_overflow(coefficient, range.min, &at_min);
    overflow |= __builtin_mul_overflow(coefficient, range.max, &at_max);
    const std::int64_t least = std::min(at_min, at_max);
    const std::int64_t most = std::max(at_min, at_max);
    overflow |= least == kMin;
    if (!overflow) {
      overflow |= __builtin_add_overflow(magnitude, std::max(most, -least), &magnitude);
    }
    if (!overflow) {
      lowest += least;
    }
  }
  if (overflow) {
    refuse(fmt::format("its size {} overflows within the symbols' ranges", size.to_string()));
  }
  if (lowest < 0) {
    refuse(
        fmt::format("its size {} can be {} within the symbols' ranges", size.to_string(), lowest));
  }
}

void Contract::check_conditions() const {
  for (const SizeCondition& condition : conditions_) {
    const auto refuse = [&](const std::string& what) {
      throw ValueError(fmt::format("contract: the condition {} {}", condition.to_string(), what));
    };
    if (condition.symbols().empty()) {
      refuse("has no symbol");
    }
    for (const std::uint32_t symbol : condition.symbols()) {
      if (symbol >= symbols_.size()) {
        refuse(fmt::format("refers to {}, which has no range", symbol_name(symbol)));
      }
      if (!std::binary_search(used_symbols_.begin(), used_symbols_.end(), symbol)) {
        refuse(fmt::format("refers to {}, which no axis shows", symbol_name(symbol)));
      }
    }
  }
}

void Contract::compile() {
  // For each symbol the axis that is easiest to read: `s0`, then `s0+1`, then `2*s0`.
  struct Source {
    const SizeExpr* size = nullptr;
    std::uint32_t tensor = 0;
    std::uint32_t axis = 0;
    [[nodiscard]] auto effort() const {
      return std::make_tuple(size->terms[0].second, size->offset != 0);
    }
  };
  std::vector<Source> sources(symbols_.size());
  std::vector<const SizeExpr*> users(symbols_.size());
  for (std::uint32_t tensor = 0; tensor < sizes_.size(); ++tensor) {
    for (std::uint32_t axis = 0; axis < sizes_[tensor].size(); ++axis) {
      const SizeExpr& size = sizes_[tensor][axis];
      for (const auto& [symbol, coefficient] : size.terms) {
        users[symbol] = &size;
      }
      if (is_readable(size)) {
        Source& source = sources[size.terms[0].first];
        const Source candidate{&size, tensor, axis};
        if (source.size == nullptr || candidate.effort() < source.effort()) {
          source = candidate;
        }
      }
    }
  }

  std::vector<AxisCheck> binds;
  for (std::uint32_t symbol = 0; symbol < symbols_.size(); ++symbol) {
    if (users[symbol] == nullptr) {
      continue;
    }
    const Source& source = sources[symbol];
    if (source.size == nullptr) {
      throw ValueError(
          fmt::format("contract: {} is part of the size {}, but no axis shows it by itself",
                      symbol_name(symbol), users[symbol]->to_string()));
    }
    used_symbols_.push_back(symbol);
    const std::int64_t coefficient = source.size->terms[0].second;
    const std::int64_t offset = source.size->offset;
    binds.push_back({source.size->is_symbol() ? AxisCheck::Kind::Bind : AxisCheck::Kind::BindLinear,
                     static_cast<std::uint16_t>(source.axis), source.tensor, symbol,
                     coefficient * symbols_[symbol].min + offset,
                     coefficient * symbols_[symbol].max + offset});
  }

  std::vector<AxisCheck> relations;
  for (std::uint32_t tensor = 0; tensor < sizes_.size(); ++tensor) {
    for (std::uint32_t axis = 0; axis < sizes_[tensor].size(); ++axis) {
      const SizeExpr& size = sizes_[tensor][axis];
      AxisCheck check{AxisCheck::Kind::Fixed, static_cast<std::uint16_t>(axis), tensor};
      if (size.is_constant()) {
        check.low = check.high = size.offset;
        checks_.push_back(check);
        continue;
      }
      const Source& source = sources[size.terms[0].first];
      if (source.size == &size) {
        continue;  // it is the symbol's bind
      }
      check.kind = size.is_symbol() ? AxisCheck::Kind::Same : AxisCheck::Kind::Linear;
      check.symbol = size.terms[0].first;
      relations.push_back(check);
    }
  }
  checks_.insert(checks_.end(), binds.begin(), binds.end());
  checks_.insert(checks_.end(), relations.begin(), relations.end());
}

}  // namespace graphtune
