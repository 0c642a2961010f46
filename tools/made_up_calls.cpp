#include "made_up_calls.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <set>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune::tools {
namespace {

using Sizes = std::vector<std::int64_t>;  // by symbol

/// The sizes at a share (0 to 1) of the way through ranges: geometrically, as sizes are met.
Sizes sizes_at(const std::vector<SymbolRange>& ranges, double share) {
  Sizes sizes;
  for (const SymbolRange& range : ranges) {
    const double low = static_cast<double>(std::max<std::int64_t>(range.min, 1));
    const double high = static_cast<double>(std::max<std::int64_t>(range.max, 1));
    const auto size = static_cast<std::int64_t>(std::llround(low * std::pow(high / low, share)));
    sizes.push_back(share <= 0   ? range.min
                    : share >= 1 ? range.max
                                 : std::clamp(size, range.min, range.max));
  }
  return sizes;
}

std::vector<SymbolRange> within(const Region& region, std::vector<SymbolRange> ranges) {
  for (const Region::Limit& limit : region.limits) {
    SymbolRange& range = ranges[limit.symbol];
    range.min = std::clamp(limit.range.min, range.min, range.max);
    range.max = std::clamp(limit.range.max, range.min, range.max);
  }
  return ranges;
}

/// These sizes, or those nearest to them along one symbol, smaller ones first, where the conditions
/// hold; nothing where none are within reach.
std::optional<Sizes> where_conditions_hold(const Contract& contract, const Sizes& wanted) {
  if (contract.conditions_hold(wanted)) {
    return wanted;
  }
  constexpr std::int64_t kReach = 4096;
  Sizes sizes = wanted;
  for (std::int64_t distance = 1; distance <= kReach; ++distance) {
    for (const std::uint32_t symbol : contract.used_symbols()) {
      const SymbolRange& range = contract.symbols()[symbol];
      const std::int64_t size = wanted[symbol];
      if (size - range.min >= distance) {
        sizes[symbol] = size - distance;
        if (contract.conditions_hold(sizes)) {
          return sizes;
        }
      }
      if (range.max - size >= distance) {
        sizes[symbol] = size + distance;
        if (contract.conditions_hold(sizes)) {
          return sizes;
        }
      }
      sizes[symbol] = size;
    }
  }
  return std::nullopt;
}

class Filler {
 public:
  explicit Filler(std::optional<IndexRange> range) : range_(range) {}

  void fill(Tensor& tensor) {
    switch (tensor.dtype()) {
      case DType::Float32:
        return fill_with<float>(tensor, [this] { return static_cast<float>(real()); });
      case DType::Float64:
        return fill_with<double>(tensor, [this] { return real(); });
      case DType::BFloat16:  // the upper half of a float
        return fill_with<std::uint16_t>(tensor, [this] {
          return static_cast<std::uint16_t>(
              std::bit_cast<std::uint32_t>(static_cast<float>(real())) >> 16U);
        });
      case DType::Float16:  // 1 to 2: exponent of 1, random mantissa
        return fill_with<std::uint16_t>(
            tensor, [this] { return static_cast<std::uint16_t>(0x3C00U | (random_() & 0x3FFU)); });
      case DType::UInt8:
        return fill_with<std::uint8_t>(tensor, [this] { return integer<std::uint8_t>(); });
      case DType::Int8:
        return fill_with<std::int8_t>(tensor, [this] { return integer<std::int8_t>(); });
      case DType::Int16:
        return fill_with<std::int16_t>(tensor, [this] { return integer<std::int16_t>(); });
      case DType::Int32:
        return fill_with<std::int32_t>(tensor, [this] { return integer<std::int32_t>(); });
      case DType::Int64:
        return fill_with<std::int64_t>(tensor, [this] { return integer<std::int64_t>(); });
      case DType::Bool:
        return fill_with<std::uint8_t>(tensor, [] { return std::uint8_t{1}; });
      default:
        break;  // zeros, as it is
    }
  }

 private:
  double real() { return std::uniform_real_distribution<double>(-1, 1)(random_); }

  template <typename T>
  T integer() {
    if (!range_) {
      return 1;
    }
    return static_cast<T>(
        std::uniform_int_distribution<std::int64_t>(range_->low, range_->high)(random_));
  }

  template <typename T, typename Make>
  void fill_with(Tensor& tensor, Make make) {
    auto* data = static_cast<T*>(tensor.data());
    std::generate(data, data + tensor.element_count(), make);
  }

  std::mt19937_64 random_{20240229};  // the same values in every run
  std::optional<IndexRange> range_;
};

Tensor make_tensor(const TensorView& form, const std::vector<SizeExpr>& axes, const Sizes& sizes,
                   std::optional<IndexRange> range) {
  if (form.device != DeviceType::Cpu || form.layout != Layout::Strided ||
      item_size(form.dtype) == 0) {
    throw ValueError(
        fmt::format("a {} tensor of {} on {} can't be made up: give calls with --input",
                    to_string(form.layout), to_string(form.dtype), to_string(form.device)));
  }
  std::vector<std::int64_t> shape;
  shape.reserve(axes.size());
  for (const SizeExpr& axis : axes) {
    shape.push_back(axis.evaluate(sizes));
  }
  Tensor tensor = Tensor::zeros(form.dtype, Dims(shape));
  Filler(range).fill(tensor);
  return tensor;
}

MadeUpCall make_call(const StoredGraph& graph, const Contract& contract, const Sizes& sizes) {
  const CallTree& tree = graph.spec.input_spec().tree();
  std::vector<Tensor> tensors;
  for (std::uint32_t i = 0; i < tree.tensors().size(); ++i) {
    std::optional<IndexRange> range;
    for (const IndexRange& candidate : contract.index_ranges()) {
      if (candidate.tensor == i) {
        range = candidate;
      }
    }
    const TensorView& recorded = tree.tensors()[tree.tensor_at(i)];
    tensors.push_back(make_tensor(recorded, contract.sizes()[i], sizes, range));
  }
  std::vector<std::string> names;
  for (const std::uint32_t symbol : contract.used_symbols()) {
    names.push_back(fmt::format("{} {}", symbol_name(symbol), sizes[symbol]));
  }
  return {names.empty() ? "fixed" : fmt::format("{}", fmt::join(names, ", ")),
          unflatten_arguments(tree, std::move(tensors))};
}

}  // namespace

std::vector<MadeUpCall> make_up_calls(const StoredGraph& graph) {
  const Contract contract = graph.spec.contract();
  const std::vector<SymbolRange>& ranges = contract.symbols();
  std::vector<Sizes> wanted = {sizes_at(ranges, 0), sizes_at(ranges, 0.5), sizes_at(ranges, 1)};
  for (const Plan::Entry& entry : graph.plan.entries) {
    const std::vector<SymbolRange> region = within(entry.region, ranges);
    wanted.push_back(sizes_at(region, 0));
    wanted.push_back(sizes_at(region, 1));
  }
  std::vector<Sizes> held;
  for (const Sizes& sizes : wanted) {
    if (std::optional<Sizes> near = where_conditions_hold(contract, sizes)) {
      held.push_back(std::move(*near));
    }
  }
  wanted = std::move(held);
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::vector<MadeUpCall> calls;
  calls.reserve(wanted.size());
  for (const Sizes& sizes : wanted) {
    calls.push_back(make_call(graph, contract, sizes));
  }
  return calls;
}

}  // namespace graphtune::tools
