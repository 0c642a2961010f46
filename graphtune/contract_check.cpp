// A call held against a contract: the checks of every call, and what is said of one that fails.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graphtune/contract.h"
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

}  // namespace

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
