#include "graphtune/graph_json.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graphtune/error.h"
#include "graphtune/json.h"
#include "graphtune/metadata_json.h"

namespace graphtune {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMaxNameSize = 256;

/// `build()`, with the path before what it throws.
template <typename Function>
auto at_path(const JsonView& json, const Function& build) {
  try {
    return build();
  } catch (const ValueError& error) {
    json.fail(error.what());
  }
}

SymbolRange range_from_json(const JsonView& json, std::int64_t min) {
  if (json.size() != 2) {
    json.fail("expected the smallest and the largest value");
  }
  return {json.at(std::size_t{0}).integer(min, kMax), json.at(std::size_t{1}).integer(min, kMax)};
}

Json range_to_json(const SymbolRange& range) { return Json::array({range.min, range.max}); }

std::uint32_t symbol_from_key(const std::string& key, const JsonView& json) {
  return at_path(json, [&] {
    const SizeExpr size = SizeExpr::parse(key);
    if (!size.is_symbol()) {
      throw ValueError("the name of a symbol was expected: b, s0, s1 …");
    }
    return size.terms[0].first;
  });
}

constexpr std::array<std::pair<Parameter::Kind, std::string_view>, 5> kKinds = {{
    {Parameter::Kind::PositionalOnly, "positional_only"},
    {Parameter::Kind::PositionalOrKeyword, "positional_or_keyword"},
    {Parameter::Kind::VarPositional, "var_positional"},
    {Parameter::Kind::KeywordOnly, "keyword_only"},
    {Parameter::Kind::VarKeyword, "var_keyword"},
}};

Parameter::Kind kind_from_json(const JsonView& json) {
  for (const auto& [kind, name] : kKinds) {
    if (json.string() == name) {
      return kind;
    }
  }
  json.fail(
      "expected positional_only, positional_or_keyword, var_positional, keyword_only or "
      "var_keyword");
}

std::vector<SymbolRange> symbols_from_json(const JsonView& json) {
  const auto members = json.members();
  std::vector<std::optional<SymbolRange>> found(members.size());
  for (const auto& [name, range] : members) {
    const std::uint32_t symbol = symbol_from_key(name, range);
    if (symbol >= found.size()) {
      json.fail(fmt::format("has {} symbols, but not all up to {}", found.size(), name));
    }
    found[symbol] = range_from_json(range, 0);
  }
  std::vector<SymbolRange> ranges;
  for (std::uint32_t symbol = 0; symbol < found.size(); ++symbol) {
    if (!found[symbol]) {
      json.fail(fmt::format("{} is missing", symbol_name(symbol)));
    }
    ranges.push_back(*found[symbol]);
  }
  return ranges;
}

}  // namespace

Json to_json(const Contract& contract) {
  Json sizes = Json::array();
  for (const std::vector<SizeExpr>& tensor : contract.sizes()) {
    Json& axes = sizes.emplace_back(Json::array());
    for (const SizeExpr& size : tensor) {
      axes.push_back(size.is_constant() ? Json(size.offset) : Json(size.to_string()));
    }
  }
  Json symbols = Json::object();
  for (std::uint32_t symbol = 0; symbol < contract.symbols().size(); ++symbol) {
    symbols[symbol_name(symbol)] = range_to_json(contract.symbols()[symbol]);
  }
  Json indices = Json::array();
  for (const IndexRange& range : contract.index_ranges()) {
    indices.push_back({{"tensor", range.tensor}, {"low", range.low}, {"high", range.high}});
  }
  Json json = {{"sizes", std::move(sizes)},
               {"symbols", std::move(symbols)},
               {"index_ranges", std::move(indices)}};
  for (const SizeCondition& condition : contract.conditions()) {
    json["conditions"].push_back(condition.to_string());
  }
  return json;
}

Contract contract_from_json(const JsonView& json) {
  json.allow_only({"sizes", "symbols", "index_ranges", "conditions"});
  std::vector<std::vector<SizeExpr>> sizes;
  for (const JsonView& tensor : json.at("sizes").items()) {
    std::vector<SizeExpr>& axes = sizes.emplace_back();
    for (const JsonView& size : tensor.items()) {
      axes.push_back(size.json().is_string()
                         ? at_path(size, [&] { return SizeExpr::parse(size.string()); })
                         : SizeExpr::constant(size.integer(0, kMax)));
    }
  }
  std::vector<IndexRange> indices;
  for (const JsonView& range : json.at("index_ranges").items()) {
    range.allow_only({"tensor", "low", "high"});
    const auto last = static_cast<std::int64_t>(sizes.size()) - 1;
    indices.push_back({static_cast<std::uint32_t>(range.at("tensor").integer(0, last)),
                       range.at("low").integer(kMin, kMax), range.at("high").integer(kMin, kMax)});
  }
  std::vector<SizeCondition> conditions;
  if (const auto texts = json.find("conditions")) {
    for (const JsonView& text : texts->items()) {
      conditions.push_back(at_path(text, [&] { return SizeCondition::parse(text.string()); }));
    }
  }
  std::vector<SymbolRange> symbols = symbols_from_json(json.at("symbols"));
  return at_path(json, [&] {
    return Contract(std::move(sizes), std::move(symbols), std::move(indices),
                    std::move(conditions));
  });
}

Json to_json(const Plan& plan) {
  Json entries = Json::array();
  for (const Plan::Entry& entry : plan.entries) {
    Json& json = entries.emplace_back(Json{{"engine", entry.engine}});
    for (const Region::Limit& limit : entry.region.limits) {
      json["region"][symbol_name(limit.symbol)] = range_to_json(limit.range);
    }
  }
  return entries;
}

Plan plan_from_json(const JsonView& json) {
  Plan plan;
  for (const JsonView& item : json.items()) {
    item.allow_only({"engine", "region"});
    Plan::Entry entry{item.at("engine").string(kMaxNameSize), {}};
    if (const auto region = item.find("region")) {
      for (const auto& [name, range] : region->members()) {
        entry.region.limits.push_back({symbol_from_key(name, range), range_from_json(range, 0)});
      }
      std::sort(entry.region.limits.begin(), entry.region.limits.end(),
                [](const auto& a, const auto& b) { return a.symbol < b.symbol; });
    }
    plan.entries.push_back(std::move(entry));
  }
  return plan;
}

Json to_json(const Signature& signature) {
  Json parameters = Json::array();
  for (const Parameter& parameter : signature.parameters()) {
    Json& json = parameters.emplace_back(Json{{"name", parameter.name}});
    for (const auto& [kind, name] : kKinds) {
      if (kind == parameter.kind) {
        json["kind"] = name;
      }
    }
    if (parameter.default_value) {
      json["default"] = to_json(*parameter.default_value);
    } else if (parameter.has_default) {
      json["has_default"] = true;
    }
  }
  return parameters;
}

Signature signature_from_json(const JsonView& json) {
  std::vector<Parameter> parameters;
  for (const JsonView& item : json.items()) {
    item.allow_only({"name", "kind", "default", "has_default"});
    Parameter parameter;
    parameter.name = item.at("name").string();
    parameter.kind = kind_from_json(item.at("kind"));
    if (const auto value = item.find("default")) {
      parameter.default_value = constant_from_json(*value);
      parameter.has_default = true;
    }
    if (const auto has_default = item.find("has_default")) {
      parameter.has_default |= has_default->boolean();
    }
    parameters.push_back(std::move(parameter));
  }
  return at_path(json, [&] { return Signature(std::move(parameters)); });
}

namespace {

Json constants_to_json(const FixedConstants& constants) {
  Json items = Json::array();
  for (const FixedConstants::Item& item : constants.items()) {
    items.push_back({{"value", to_json(item.value)}, {"any_value", item.any_value}});
  }
  return items;
}

FixedConstants constants_from_json(const JsonView& json) {
  std::vector<FixedConstants::Item> items;
  for (const JsonView& item : json.items()) {
    item.allow_only({"value", "any_value"});
    items.push_back({constant_from_json(item.at("value")), item.at("any_value").boolean()});
  }
  return FixedConstants(std::move(items));
}

}  // namespace

struct GraphSpecJson {
  static Json write(const GraphSpec& spec) {
    Json json{{"name", spec.name_},
              {"sample_count", spec.sample_count_},
              {"inputs", to_json(spec.input_spec_)},
              {"outputs", to_json(spec.output_spec_)}};
    if (!spec.eager_reason_.empty()) {
      json["eager_reason"] = spec.eager_reason_;
    }
    if (spec.contract_) {
      json["contract"] = to_json(*spec.contract_);
    }
    if (spec.fixed_constants_) {
      json["fixed_constants"] = constants_to_json(*spec.fixed_constants_);
    }
    return json;
  }

  static GraphSpec read(const JsonView& json) {
    json.allow_only({"name", "sample_count", "inputs", "outputs", "eager_reason", "contract",
                     "fixed_constants"});
    const JsonView name = json.at("name");
    if (name.string(kMaxNameSize).empty()) {
      name.fail("must not be empty");
    }
    const auto metadata = [&](std::string_view key, CallTree::Kind kind) {
      const JsonView view = json.at(key);
      SampleMetadata parsed = sample_metadata_from_json(view);
      if (parsed.tree().kind() != kind) {
        view.fail(kind == CallTree::Kind::Inputs ? "expected the structure of a call"
                                                 : "expected the structure of a result");
      }
      return parsed;
    };
    GraphSpec spec(name.string(), metadata("inputs", CallTree::Kind::Inputs),
                   metadata("outputs", CallTree::Kind::Result));
    spec.sample_count_ = static_cast<std::uint64_t>(json.at("sample_count").integer(0, kMax));
    if (const auto reason = json.find("eager_reason")) {
      spec.eager_reason_ = reason->string();
    }
    if (const auto contract = json.find("contract")) {
      Contract parsed = contract_from_json(*contract);
      at_path(*contract, [&] { spec.set_contract(std::move(parsed)); });
    }
    if (const auto constants = json.find("fixed_constants")) {
      FixedConstants parsed = constants_from_json(*constants);
      at_path(*constants, [&] { spec.set_fixed_constants(std::move(parsed)); });
    }
    return spec;
  }
};

Json to_json(const GraphSpec& spec) { return GraphSpecJson::write(spec); }

GraphSpec graph_spec_from_json(const JsonView& json) { return GraphSpecJson::read(json); }

Json to_json(const ArgumentChanges& changes) {
  return {{"form", to_json(changes.form)},
          {"sources", changes.sources},
          {"extra_results", changes.extra_results},
          {"not_in_result", changes.not_in_result}};
}

ArgumentChanges argument_changes_from_json(const JsonView& json) {
  json.allow_only({"form", "sources", "extra_results", "not_in_result"});
  constexpr auto kMost = static_cast<std::int64_t>(CallTree::kMaxNodes);
  ArgumentChanges changes;
  changes.form = call_tree_from_json(json.at("form"));
  for (const JsonView& source : json.at("sources").items()) {
    changes.sources.push_back(static_cast<std::int32_t>(source.integer(-kMost, kMost)));
  }
  changes.extra_results = static_cast<std::uint32_t>(json.at("extra_results").integer(0, kMost));
  changes.not_in_result = json.at("not_in_result").string();
  return changes;
}

}  // namespace graphtune
