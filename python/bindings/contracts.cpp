#include "bindings/contracts.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings/call_signature.h"
#include "bindings/plan_conversion.h"
#include "bindings/stub_types.h"
#include "bindings/walk.h"
#include "bindings/walker_lease.h"
#include "graphtune/error.h"
#include "graphtune/graph_spec.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

template <typename Key>
using RangesBy = nb::typed<nb::dict, Key, nb::typed<nb::tuple, int, int>>;
using SizeLists = nb::typed<nb::list, nb::typed<nb::list, std::variant<int, std::string>>>;
using ContractParts =
    nb::typed<nb::tuple, SizeLists, RangesBy<nb::str>, RangesBy<int>, nb::typed<nb::list, nb::str>>;
using SymbolValues = nb::typed<nb::dict, nb::str, int>;

Contract make_contract(
    const std::vector<std::vector<std::variant<std::int64_t, std::string>>>& sizes,
    const Limits& symbols, const Limits& indices, const std::vector<std::string>& conditions) {
  std::vector<std::vector<SizeExpr>> expressions;
  std::uint32_t symbol_count = 1;
  for (const auto& [name, range] : symbols) {
    symbol_count = std::max(symbol_count, symbol_of(name) + 1);
  }
  for (const auto& tensor : sizes) {
    std::vector<SizeExpr>& row = expressions.emplace_back();
    for (const auto& size : tensor) {
      row.push_back(std::holds_alternative<std::int64_t>(size)
                        ? SizeExpr::constant(std::get<std::int64_t>(size))
                        : SizeExpr::parse(std::get<std::string>(size)));
    }
  }
  std::vector<SymbolRange> ranges(symbol_count);
  for (const auto& [name, range] : symbols) {
    ranges[symbol_of(name)] = {range.first, range.second};
  }
  std::vector<IndexRange> index_ranges;
  for (const auto& [tensor, range] : indices) {
    index_ranges.push_back(
        {static_cast<std::uint32_t>(std::stoul(tensor)), range.first, range.second});
  }
  std::vector<SizeCondition> parsed;
  parsed.reserve(conditions.size());
  for (const std::string& condition : conditions) {
    parsed.push_back(SizeCondition::parse(condition));
  }
  return {std::move(expressions), std::move(ranges), std::move(index_ranges), std::move(parsed)};
}

nb::object size_to_python(const SizeExpr& size) {
  return size.is_constant() ? nb::object(nb::int_(size.offset))
                            : nb::object(nb::str(size.to_string().c_str()));
}

// (sizes per tensor in canonical order, symbol -> range, canonical index -> allowed values,
// conditions)
ContractParts contract_parts(const GraphSpec& spec) {
  const Contract contract = spec.contract();
  nb::list sizes;
  for (const std::vector<SizeExpr>& tensor : contract.sizes()) {
    nb::list row;
    for (const SizeExpr& size : tensor) {
      row.append(size_to_python(size));
    }
    sizes.append(row);
  }
  nb::dict symbols;
  for (const std::uint32_t symbol : contract.used_symbols()) {
    const SymbolRange& range = contract.symbols()[symbol];
    symbols[symbol_name(symbol).c_str()] = nb::make_tuple(range.min, range.max);
  }
  nb::dict indices;
  for (const IndexRange& range : contract.index_ranges()) {
    indices[nb::int_(range.tensor)] = nb::make_tuple(range.low, range.high);
  }
  nb::list conditions;
  for (const SizeCondition& condition : contract.conditions()) {
    conditions.append(nb::str(condition.to_string().c_str()));
  }
  return nb::make_tuple(sizes, symbols, indices, conditions);
}

std::optional<SymbolValues> symbols_of_call(const GraphSpec& spec, const Args& args,
                                            const Kwargs& kwargs, const CallSignature* signature) {
  const Contract contract = spec.contract();
  const WalkerLease walker;
  walker->walk_inputs(args.ptr(), kwargs.ptr(), signature);
  if (!(CallKey(walker->tree(), spec.input_spec().strict()) == spec.input_spec().key())) {
    throw ValueError("the call is of another graph than " + spec.name());
  }
  std::vector<std::int64_t> values(contract.symbols().size());
  if (contract.check_sizes(walker->tree(), values)) {
    return std::nullopt;
  }
  SymbolValues result;
  for (const std::uint32_t symbol : contract.used_symbols()) {
    result[symbol_name(symbol).c_str()] = values[symbol];
  }
  return result;
}

std::vector<std::string> names_in_canonical_order(const CallTree& tree) {
  std::vector<std::string> names = tree.leaf_names().tensors;
  if (tree.is_canonical()) {
    return names;
  }
  std::vector<std::string> ordered;
  for (const std::uint32_t index : tree.tensor_order()) {
    ordered.push_back(names[index]);
  }
  return ordered;
}

/// Places among the constants, in canonical order.
using Places = std::vector<std::uint32_t>;

GraphSpec with_fixed_constants(GraphSpec spec, const Args& args, const Kwargs& kwargs,
                               const CallSignature* signature, const Places& unused) {
  const WalkerLease walker;
  walker->walk_inputs(args.ptr(), kwargs.ptr(), signature);
  spec.set_fixed_constants(FixedConstants(walker->tree(), unused));
  return spec;
}

/// Bytes that are equal for equal constants only.
std::vector<nb::bytes> call_constants(const Args& args, const Kwargs& kwargs,
                                      const CallSignature* signature) {
  const WalkerLease walker;
  walker->walk_inputs(args.ptr(), kwargs.ptr(), signature);
  std::vector<nb::bytes> constants;
  for (const Constant& constant : canonical_constants(walker->tree())) {
    std::string bytes;
    constant.encode(bytes);
    constants.emplace_back(bytes.data(), bytes.size());
  }
  return constants;
}

GraphSpec with_contract(GraphSpec spec, Contract contract) {
  spec.set_contract(std::move(contract));
  return spec;
}

}  // namespace

void bind_contracts(nb::module_& module) {
  nb::class_<Contract>(module, "Contract",
                       "Sizes, ranges and index values that a graph's engines were validated for");
  module.def(
      "contract_parts", &contract_parts, "spec"_a,
      "Sizes per tensor in canonical order, ranges by symbol, allowed values by canonical index, "
      "conditions.");
  module.def(
      "symbols_of_call", &symbols_of_call, "spec"_a, "args"_a, "kwargs"_a,
      "signature"_a = nb::none(),
      "The symbols' values in a call of this graph; None when it is outside of the contract.");
  module.def(
      "input_names",
      [](const GraphSpec& spec) { return names_in_canonical_order(spec.input_spec().tree()); },
      "spec"_a, "Names of a graph's input tensors in canonical order.");
  module.def(
      "output_names",
      [](const GraphSpec& spec) { return names_in_canonical_order(spec.output_spec().tree()); },
      "spec"_a, "Names of a graph's result tensors in canonical order.");
  module.def("with_contract", &with_contract, "spec"_a, "contract"_a,
             "A copy with another contract.");
  module.def("with_fixed_constants", &with_fixed_constants, "spec"_a, "args"_a, "kwargs"_a,
             "signature"_a, "unused"_a,
             "A copy whose engines have the constants of this call built in; those at the places "
             "`unused`, in canonical order, may have any value.");
  module.def("call_constants", &call_constants, "args"_a, "kwargs"_a, "signature"_a = nb::none(),
             "For each constant of a call, in canonical order, bytes that identify its value.");
  module.def("make_contract", &make_contract, "sizes"_a, "symbols"_a, "index_ranges"_a,
             "conditions"_a = std::vector<std::string>(),
             "A Contract from sizes (numbers or expressions) per tensor in canonical order, the "
             "symbols' ranges, and "
             "allowed values of index tensors by canonical index (as text), and "
             "conditions such as 'b*s0 <= 20'.");
}

}  // namespace graphtune::python
