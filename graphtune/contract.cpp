#include "graphtune/contract.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/index_scan.h"

namespace graphtune {
namespace {

constexpr const char* kNextStep = "Record a sample of this size and tune again.";

std::string range_text(const SymbolRange& range) {
  return range.min == range.max ? fmt::format("{}", range.min)
                                : fmt::format("{} to {}", range.min, range.max);
}

std::string locator_text(const CallTree& tree, std::uint32_t canonical_index) {
  return tree.tensor_locators()[tree.tensor_at(canonical_index)].shown();
}

bool has_axis(const TensorView& tensor, std::uint32_t axis) noexcept {
  return tensor.sizes != nullptr && static_cast<std::int64_t>(axis) < tensor.rank;
}

/// Why an index tensor can't be let through to an engine.
enum class IndexFault : std::uint8_t { None, DType, Place, NoData, Value };

IndexFault check_index_tensor(const TensorView& tensor, const IndexRange& range,
                              std::optional<IndexViolation>& violation) {
  if (!is_index_dtype(tensor.dtype)) {
    return IndexFault::DType;
  }
  if (tensor.device != DeviceType::Cpu || tensor.layout != Layout::Strided) {
    return IndexFault::Place;
  }
  if (tensor.element_count() == 0) {
    return IndexFault::None;
  }
  if (tensor.data == nullptr || (tensor.rank > 0 && tensor.strides == nullptr)) {
    return IndexFault::NoData;
  }
  violation = find_index_violation(tensor, range.low, range.high);
  return violation ? IndexFault::Value : IndexFault::None;
}

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

std::optional<Miss> Contract::check_sizes(const CallTree& tree,
                                          std::span<std::int64_t> symbols) const {
  if (tree.tensors().size() != sizes_.size() || symbols.size() < symbols_.size()) {
    throw ValueError(fmt::format(
        "contract of {} tensors and {} symbols, given {} tensors and room for {} symbols",
        sizes_.size(), symbols_.size(), tree.tensors().size(), symbols.size()));
  }
  const Tensors tensors{tree.tensors(), tree.tensor_order()};
  if (const AxisCheck* wrong = first_wrong_axis(tensors, symbols)) {
    const TensorView& tensor = tensors[wrong->tensor];
    if (!has_axis(tensor, wrong->axis)) {
      throw ValueError(fmt::format("contract: {} has no axis {}: the call is not of this graph",
                                   locator_text(tree, wrong->tensor), wrong->axis));
    }
    return refuse_size(tree, *wrong, tensor.sizes[wrong->axis], symbols);
  }
  for (const SizeCondition& condition : conditions_) {
    if (!condition.holds(symbols)) {
      return refuse_condition(tree, condition, symbols);
    }
  }
  return std::nullopt;
}

const Contract::AxisCheck* Contract::first_wrong_axis(
    const Tensors& tensors, std::span<std::int64_t> symbols) const noexcept {
  for (std::size_t symbol = 0; symbol < symbols_.size(); ++symbol) {
    symbols[symbol] = symbols_[symbol].min;
  }
  for (const AxisCheck& check : checks_) {
    const TensorView& tensor = tensors[check.tensor];
    if (!has_axis(tensor, check.axis)) {
      return &check;
    }
    const std::int64_t size = tensor.sizes[check.axis];
    bool good = false;
    switch (check.kind) {
      case AxisCheck::Kind::Fixed:
        good = size == check.low;
        break;
      case AxisCheck::Kind::Bind:
        good = size >= check.low && size <= check.high;
        symbols[check.symbol] = size;
        break;
      case AxisCheck::Kind::BindLinear:
        good = size >= check.low && size <= check.high;
        if (good) {
          const SizeExpr& expected = size_of(check);
          const std::int64_t rest = size - expected.offset;
          const std::int64_t coefficient = expected.terms[0].second;
          good = rest % coefficient == 0;
          symbols[check.symbol] = rest / coefficient;
        }
        break;
      case AxisCheck::Kind::Same:
        good = size == symbols[check.symbol];
        break;
      case AxisCheck::Kind::Linear:
        good = size == size_of(check).evaluate(symbols);
        break;
    }
    if (!good) {
      return &check;
    }
  }
  return nullptr;
}

bool Contract::sizes_hold(const Tensors& tensors, std::span<std::int64_t> symbols) const {
  return tensors.views.size() == sizes_.size() && first_wrong_axis(tensors, symbols) == nullptr &&
         conditions_hold(symbols);
}

bool Contract::conditions_hold(std::span<const std::int64_t> symbols) const {
  if (symbols.size() < symbols_.size()) {
    throw ValueError(fmt::format("contract of {} symbols, given the values of {}", symbols_.size(),
                                 symbols.size()));
  }
  return std::all_of(conditions_.begin(), conditions_.end(),
                     [&](const SizeCondition& condition) { return condition.holds(symbols); });
}

Miss Contract::refuse_size(const CallTree& tree, const AxisCheck& check, std::int64_t size,
                           std::span<const std::int64_t> symbols) const {
  const SizeExpr& expected = size_of(check);
  Miss miss;
  miss.message = fmt::format("axis {} of {} has size {}; ", check.axis,
                             locator_text(tree, check.tensor), size);
  switch (check.kind) {
    case AxisCheck::Kind::Fixed:
      miss.reason = MissReason::Range;
      miss.message += fmt::format("allowed is {}", check.low);
      break;
    case AxisCheck::Kind::Bind:
    case AxisCheck::Kind::BindLinear: {
      const bool in_range = size >= check.low && size <= check.high;
      miss.reason = in_range ? MissReason::Relation : MissReason::Range;
      const std::string range = range_text(symbols_[check.symbol]);
      miss.message += expected.is_symbol()
                          ? fmt::format("allowed is {} = {}", symbol_name(check.symbol), range)
                          : fmt::format("allowed is {} with {} = {}", expected.to_string(),
                                        symbol_name(check.symbol), range);
      break;
    }
    case AxisCheck::Kind::Same:
    case AxisCheck::Kind::Linear: {
      miss.reason = MissReason::Relation;
      std::string sources;
      for (const auto& [symbol, coefficient] : expected.terms) {
        sources += sources.empty() ? "" : ", ";
        if (check.kind == AxisCheck::Kind::Linear) {
          sources += fmt::format("{} = {}: ", symbol_name(symbol), symbols[symbol]);
        }
        sources += source_text(tree, symbol);
      }
      miss.message += fmt::format("it must equal {} = {} ({})", expected.to_string(),
                                  expected.evaluate(symbols), sources);
      break;
    }
  }
  miss.message += fmt::format(". {}", kNextStep);
  return miss;
}

Miss Contract::refuse_condition(const CallTree& tree, const SizeCondition& condition,
                                std::span<const std::int64_t> symbols) const {
  std::string values;
  std::string sources;
  for (const std::uint32_t symbol : condition.symbols()) {
    const std::string name = symbol_name(symbol);
    const char* separator = values.empty() ? "" : ", ";
    values += fmt::format("{}{} = {}", separator, name, symbols[symbol]);
    sources += fmt::format("{}{}: {}", separator, name, source_text(tree, symbol));
  }
  return {
      MissReason::Relation,
      fmt::format("{} does not hold for {} ({}). The engines are right only where it holds: call "
                  "eagerly, miss policy 'eager'.",
                  condition.to_string(), values, sources)};
}

std::string Contract::source_text(const CallTree& tree, std::uint32_t symbol) const {
  const auto bind = std::find_if(checks_.begin(), checks_.end(), [&](const AxisCheck& check) {
    return check.binds() && check.symbol == symbol;
  });
  return fmt::format("axis {} of {}", bind->axis, locator_text(tree, bind->tensor));
}

std::optional<Miss> Contract::check_indices(const CallTree& tree) const {
  for (const IndexRange& range : indices_) {
    const TensorView& tensor = tree.tensors()[tree.tensor_at(range.tensor)];
    const auto refuse = [&](const std::string& what) {
      return Miss{MissReason::IndexRange,
                  fmt::format("{} {}", locator_text(tree, range.tensor), what)};
    };
    std::optional<IndexViolation> violation;
    switch (check_index_tensor(tensor, range, violation)) {
      case IndexFault::None:
        break;
      case IndexFault::DType:
        return refuse(fmt::format(
            "is {} but its values are used as indices: only int8 to int64 and uint8 can be "
            "checked.",
            to_string(tensor.dtype)));
      case IndexFault::Place:
        return refuse(fmt::format(
            "is a {} tensor on {}: its values are used as indices and can only be checked in "
            "strided CPU memory. Move it to the CPU.",
            to_string(tensor.layout), to_string(tensor.device)));
      case IndexFault::NoData:
        return refuse("has no data: its values are used as indices and can't be checked.");
      case IndexFault::Value:
        return refuse(fmt::format(
            "has the value {} at [{}]; it is used as an index, and {} to {} is allowed. Correct "
            "the input.",
            violation->value, fmt::join(violation->position, ", "), range.low, range.high));
    }
  }
  return std::nullopt;
}

bool Contract::indices_hold(const Tensors& tensors) const {
  std::optional<IndexViolation> violation;
  return std::all_of(indices_.begin(), indices_.end(), [&](const IndexRange& range) {
    return check_index_tensor(tensors[range.tensor], range, violation) == IndexFault::None;
  });
}

}  // namespace graphtune
