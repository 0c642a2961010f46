#include "graphtune/graph_spec.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

std::string place(const Locator& locator) {
  const std::string text = locator.shown();
  return text.empty() ? "the result" : text;
}

/// Index of the first leaf with a property, in the caller's order.
template <typename Leaves, typename Predicate>
std::optional<std::size_t> find_leaf(const Leaves& leaves, Predicate predicate) {
  const auto found = std::find_if(leaves.begin(), leaves.end(), predicate);
  if (found == leaves.end()) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(found - leaves.begin());
}

bool is_strided(const TensorView& tensor) { return tensor.layout == Layout::Strided; }

/// Why no engine can take or give the leaves of `tree`; empty when one might.
std::string obstacle(const CallTree& tree) {
  if (!tree.opaques().empty()) {
    return fmt::format(
        "{} is an object of class {}, which graphtune can't look into: register the class "
        "(register_type), or pass its tensors themselves",
        place(tree.opaque_locators().front()), *tree.opaques().front());
  }
  if (const auto tensor = find_leaf(tree.tensors(), [](const auto& t) { return !is_strided(t); })) {
    return fmt::format("{} is a tensor of layout {}: engines take and give strided tensors only",
                       place(tree.tensor_locators()[*tensor]),
                       to_string(tree.tensors()[*tensor].layout));
  }
  return {};
}

/// As metadata that compares constants too, without sizes: for describe_difference.
SampleMetadata strict_metadata(const CallTree& tree) {
  CallTree detached = tree;
  detached.detach();
  std::size_t axes = 0;
  for (const TensorView& tensor : detached.tensors()) {
    axes += static_cast<std::size_t>(tensor.rank);
  }
  return SampleMetadata(std::move(detached), true, ShapeLearner(axes));
}

std::string range_text(const SymbolRange& range) {
  return range.min == range.max ? fmt::format("{}", range.min)
                                : fmt::format("{} to {}", range.min, range.max);
}

/// "axis 0 of ['x'], axis 1 of ['y'] and 3 more": the axes whose size is `size`.
std::string axes_text(const std::vector<SampleMetadata::AxisReport>& axes, const SizeExpr& size) {
  constexpr std::size_t kShown = 6;
  std::string text;
  std::size_t count = 0;
  for (const auto& axis : axes) {
    if (axis.facts.size == size && ++count <= kShown) {
      text +=
          fmt::format("{}axis {} of {}", text.empty() ? "" : ", ", axis.axis, place(axis.locator));
    }
  }
  return count <= kShown ? text : fmt::format("{} and {} more", text, count - kShown);
}

std::string symbols_text(const Contract& contract,
                         const std::vector<SampleMetadata::AxisReport>& axes) {
  std::string text;
  for (const std::uint32_t symbol : contract.used_symbols()) {
    const SizeExpr size{0, {{symbol, 1}}};
    text += fmt::format("\n  {} = {}", symbol_name(symbol), range_text(contract.symbols()[symbol]));
    const std::string where = axes_text(axes, size);
    text += where.empty() ? "" : ": " + where;
  }
  std::vector<SizeExpr> shown;
  for (const auto& axis : axes) {
    const SizeExpr& size = axis.facts.size;
    if (!size.is_constant() && !size.is_symbol() &&
        std::find(shown.begin(), shown.end(), size) == shown.end()) {
      text += fmt::format("\n  {}: {}", size.to_string(), axes_text(axes, size));
      shown.push_back(size);
    }
  }
  for (const SizeCondition& condition : contract.conditions()) {
    text += "\n  only where " + condition.to_string();
  }
  return text;
}

}  // namespace

GraphSpec::GraphSpec(std::string name, SampleMetadata input_spec, SampleMetadata output_spec)
    : name_(std::move(name)),
      input_spec_(std::move(input_spec)),
      output_spec_(std::move(output_spec)),
      output_key_(output_spec_.tree(), true) {
  if (input_spec_.tree().kind() != CallTree::Kind::Inputs) {
    throw ValueError("input_spec: expected the metadata of a call's arguments (from_inputs)");
  }
  if (output_spec_.tree().kind() != CallTree::Kind::Result) {
    throw ValueError("output_spec: expected the metadata of a result (from_outputs)");
  }
  check_tunable();
}

void GraphSpec::check_tunable() {
  eager_reason_ = obstacle(input_spec_.tree());
  const CallTree& output = output_spec_.tree();
  if (!eager_reason_.empty()) {
    return;
  }
  eager_reason_ = obstacle(output);
  if (!eager_reason_.empty()) {
    eager_reason_ = "in the result, " + eager_reason_;
  } else if (output.tensors().empty()) {
    eager_reason_ = "the result holds no tensor";
  } else if (const auto constant =
                 find_leaf(output.constants(), [](const auto& c) { return !c.is_complete(); })) {
    eager_reason_ = fmt::format("in the result, {} is a text too long to be stored: {}",
                                place(output.constant_locators()[*constant]),
                                output.constants()[*constant].display());
  }
}

void GraphSpec::note_output(const CallTree& output, const CallKey& key) {
  if (eager_reason_.empty() && !(key == output_key_)) {
    eager_reason_ = fmt::format(
        "the result is not of one form in all samples, as an engine's is: {}",
        describe_difference(strict_metadata(output_spec_.tree()), strict_metadata(output)));
  }
}

void GraphSpec::update(const SampleMetadata& input, const SampleMetadata& output) {
  input_spec_.update_shapes_seen(input);
  note_output(output.tree(), CallKey(output.tree(), true));
  if (output_spec_ == output) {
    output_spec_.update_shapes_seen(output);
  }
  ++sample_count_;
}

bool GraphSpec::observe(const CallTree& input, const CallTree& output,
                        std::optional<std::int64_t> batch_size) {
  thread_local CallKey key;  // keeps its memory
  key.assign(output, true);
  note_output(output, key);
  bool learned = input_spec_.observe(input, batch_size);
  if (key == output_key_) {
    learned |= output_spec_.observe(output, batch_size);
  }
  ++sample_count_;
  return learned;
}

std::optional<std::int64_t> GraphSpec::min_batch_size() const {
  const auto range = input_spec_.learner().batch_range();
  return range ? std::optional(range->first) : std::nullopt;
}

std::optional<std::int64_t> GraphSpec::max_batch_size() const {
  const auto range = input_spec_.learner().batch_range();
  return range ? std::optional(range->second) : std::nullopt;
}

void GraphSpec::set_eager_reason(std::string reason) { eager_reason_ = std::move(reason); }

FixedConstants GraphSpec::fixed_constants() const {
  return fixed_constants_ ? *fixed_constants_ : FixedConstants(input_spec_.tree());
}

void GraphSpec::set_fixed_constants(FixedConstants constants) {
  const std::size_t count = input_spec_.tree().constants().size();
  if (constants.items().size() != count) {
    throw ValueError(fmt::format("{}: {} fixed constants were given for calls with {}", name_,
                                 constants.items().size(), count));
  }
  fixed_constants_ = std::move(constants);
}

Contract GraphSpec::contract() const {
  return contract_ ? *contract_ : Contract::from_metadata(input_spec_);
}

void GraphSpec::set_contract(Contract contract) {
  const std::vector<std::uint32_t>& offsets = input_spec_.axis_offsets();
  bool fits = contract.sizes().size() == input_spec_.tensor_count();
  for (std::size_t tensor = 0; fits && tensor < contract.sizes().size(); ++tensor) {
    fits = contract.sizes()[tensor].size() == offsets[tensor + 1] - offsets[tensor];
  }
  if (!fits) {
    throw ValueError(
        fmt::format("{}: the contract is of other tensors than the graph's inputs, or of "
                    "other ranks",
                    name_));
  }
  contract_ = std::move(contract);
}

std::string GraphSpec::describe(InfoLevel level) const {
  std::string text =
      fmt::format("{}: {} {}", name_, sample_count_, sample_count_ == 1 ? "sample" : "samples");
  if (const auto range = input_spec_.learner().batch_range()) {
    text += ", batch size " + range_text({range->first, range->second});
  }
  text += "\nInputs\n" + input_spec_.describe(level);
  text += "\nOutputs\n" + output_spec_.describe(level);

  const std::vector<SampleMetadata::AxisReport> axes = input_spec_.explain();
  const std::string symbols = symbols_text(contract(), axes);
  if (!symbols.empty()) {
    text += "\nSymbols" + symbols;
  }
  std::string ambiguous;
  for (const auto& axis : axes) {
    if (axis.facts.ambiguous) {
      ambiguous +=
          fmt::format("\n  axis {} of {}: {} To settle it: {}", axis.axis, place(axis.locator),
                      axis.explanation.reason, axis.explanation.settle);
    }
  }
  if (!ambiguous.empty()) {
    text += "\nAmbiguous" + ambiguous;
  }
  if (!eager_reason_.empty()) {
    text += "\nStays eager: " + eager_reason_;
  }
  return text;
}

}  // namespace graphtune
