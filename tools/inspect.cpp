#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "graphtune/error.h"
#include "graphtune/graph_json.h"
#include "graphtune/modules.h"
#include "graphtune/text_table.h"
#include "output.h"

namespace graphtune::tools {
namespace {

std::string signature_text(const Signature& signature) {
  using Kind = Parameter::Kind;
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const auto& parameters = signature.parameters();
  bool star = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (parameter.kind == Kind::KeywordOnly && !star) {
      add("*");
      star = true;
    }
    star |= parameter.kind == Kind::VarPositional;
    const char* stars = parameter.kind == Kind::VarPositional ? "*"
                        : parameter.kind == Kind::VarKeyword  ? "**"
                                                              : "";
    add(stars + parameter.name +
        (parameter.default_value ? "=" + parameter.default_value->repr()
         : parameter.has_default ? "=..."
                                 : ""));
    const bool last_positional_only =
        parameter.kind == Kind::PositionalOnly &&
        (i + 1 == parameters.size() || parameters[i + 1].kind != Kind::PositionalOnly);
    if (last_positional_only) {
      add("/");
    }
  }
  return "(" + text + ")";
}

std::string pairs_text(const std::map<std::string, std::string>& pairs) {
  std::string text;
  for (const auto& [key, value] : pairs) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, value);
  }
  return text;
}

std::string scalar_text(const Json& value) {
  if (value.is_number_float()) {
    return fmt::format("{:.4g}", value.get<double>());
  }
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_table(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& row) { return row.is_object(); });
}

std::string indented(const std::string& text, const std::string& indent) {
  std::string result = indent;
  for (const char c : text) {
    result += c;
    if (c == '\n') {
      result += indent;
    }
  }
  return result;
}

/// Objects by line, lists of objects as tables, all else as JSON.
std::string info_text(const Json& info, const std::string& indent) {
  std::string text;
  for (const auto& [key, value] : info.items()) {
    text.append("\n").append(indent).append(key).append(":");
    if (value.is_object() && !value.empty()) {
      text += info_text(value, indent + "  ");
    } else if (is_table(value)) {
      std::set<std::string> columns;
      for (const Json& row : value) {
        for (const auto& cell : row.items()) {
          columns.insert(cell.key());
        }
      }
      const std::vector<std::string> header(columns.begin(), columns.end());
      std::vector<std::vector<std::string>> rows;
      for (const Json& row : value) {
        std::vector<std::string>& cells = rows.emplace_back();
        for (const std::string& column : header) {
          cells.push_back(row.contains(column) ? scalar_text(row[column]) : "");
        }
      }
      text += "\n" + indented(format_table(header, rows, TableStyle::Simple), indent + "  ");
    } else {
      text += " " + scalar_text(value);
    }
  }
  return text;
}

std::vector<std::pair<std::string, StoredFile>> files_of(const Bundle& bundle,
                                                         const StoredEngine& engine) {
  std::vector<std::pair<std::string, StoredFile>> files;
  for (const auto& [name, file] : bundle.files) {
    if (name.starts_with(engine.folder + "/")) {
      files.emplace_back(name, file);
    }
  }
  return files;
}

void print_engine(const Bundle& bundle, const StoredEngine& engine) {
  print_out("  {} (backend {}){}\n", engine.name, engine.backend,
            engine.native_code ? ", native code" : "");
  for (const auto& [name, file] : files_of(bundle, engine)) {
    print_out("    {}: {}, sha256 {}\n", name, bytes_text(file.size), file.sha256);
  }
  const std::string info = info_text(Json::parse(engine.info_json), "    ");
  if (!info.empty()) {
    print_out("{}\n", info.substr(1));
  }
}

void print_graph(const Bundle& bundle, const StoredGraph& graph) {
  print_out("\n{}\n", graph.spec.describe(InfoLevel::Full));
  if (!graph.spec.eager_reason().empty()) {
    return;
  }
  const Contract contract = graph.spec.contract();
  const CallTree& tree = graph.spec.input_spec().tree();
  print_out("Tuned for\n");
  const std::vector<Locator> locators = tree.tensor_locators();
  const auto locator = [&](std::uint32_t canonical) {
    return locators[tree.tensor_at(canonical)].to_string();
  };
  for (std::uint32_t i = 0; i < contract.sizes().size(); ++i) {
    std::vector<std::string> axes;
    for (const SizeExpr& size : contract.sizes()[i]) {
      axes.push_back(size.to_string());
    }
    print_out("  {} [{}]\n", locator(i), fmt::join(axes, ", "));
  }
  for (const std::uint32_t symbol : contract.used_symbols()) {
    const SymbolRange& range = contract.symbols()[symbol];
    print_out("  {} = {} to {}\n", symbol_name(symbol), range.min, range.max);
  }
  for (const SizeCondition& condition : contract.conditions()) {
    fmt::print("  only where {}\n", condition.to_string());
  }
  for (const IndexRange& range : contract.index_ranges()) {
    print_out("  values of {}: {} to {}\n", locator(range.tensor), range.low, range.high);
  }
  print_out("Plan: {}\n", to_string(graph.plan));
  if (!graph.engines.empty()) {
    print_out("Engines\n");
  }
  for (const StoredEngine& engine : graph.engines) {
    print_engine(bundle, engine);
  }
}

Json graph_to_json(const Bundle& bundle, const StoredGraph& graph) {
  Json engines = Json::array();
  for (const StoredEngine& engine : graph.engines) {
    Json files = Json::object();
    for (const auto& [name, file] : files_of(bundle, engine)) {
      files[name] = {{"size", file.size}, {"sha256", file.sha256}};
    }
    engines.push_back({{"name", engine.name},
                       {"backend", engine.backend},
                       {"native_code", engine.native_code},
                       {"files", std::move(files)},
                       {"info", Json::parse(engine.info_json)}});
  }
  return {{"name", graph.spec.name()},
          {"sample_count", graph.spec.sample_count()},
          {"eager_reason", graph.spec.eager_reason()},
          {"inputs", graph.spec.input_spec().describe(InfoLevel::Full)},
          {"outputs", graph.spec.output_spec().describe(InfoLevel::Full)},
          {"contract", to_json(graph.spec.contract())},
          {"plan", to_json(graph.plan)},
          {"engines", std::move(engines)}};
}

bool is_this_machine(const Bundle& bundle) {
  const auto id = bundle.hardware.find("machine_id");
  const auto here = describe_hardware();
  return id != bundle.hardware.end() && !id->second.empty() && id->second == here.at("machine_id");
}

void print_json(const Bundle& bundle) {
  Json graphs = Json::array();
  for (const StoredGraph& graph : bundle.graphs) {
    graphs.push_back(graph_to_json(bundle, graph));
  }
  const Json json = {{"bundle", bundle.folder.string()},
                     {"format_version", Bundle::kFormatVersion},
                     {"module", bundle.module_name},
                     {"strict", bundle.strict},
                     {"signature", to_json(bundle.signature)},
                     {"versions", bundle.versions},
                     {"hardware", bundle.hardware},
                     {"built_on_this_machine", is_this_machine(bundle)},
                     {"info", Json::parse(bundle.info_json)},
                     {"graphs", std::move(graphs)}};
  print_out("{}\n", json.dump(1));
}

}  // namespace

void inspect(const InspectOptions& options) {
  if (options.module.empty() && holds_modules(options.bundle)) {
    list_modules(options.bundle, options.json);
    return;
  }
  const Bundle bundle = read_bundle(choose_bundle(options.bundle, options.module));
  if (options.json) {
    print_json(bundle);
    return;
  }
  print_out("Bundle {}: format version {}, {} files, {}, all as the manifest says\n",
            bundle.folder.string(), Bundle::kFormatVersion, bundle.files.size(),
            bytes_text(bundle_bytes(bundle)));
  print_out("Module {}{}, {}\n", bundle.module_name, signature_text(bundle.signature),
            bundle.strict ? "strict (constants are part of a graph)"
                          : "not strict (constants are no part of a graph)");
  print_out("Built with {}\n", pairs_text(bundle.versions));
  const auto cpu = bundle.hardware.find("cpu");
  print_out("Built on {} ({})\n",
            cpu == bundle.hardware.end() ? "an unknown processor" : cpu->second,
            is_this_machine(bundle) ? "this machine" : "another machine");
  const std::string info = info_text(Json::parse(bundle.info_json), "  ");
  if (!info.empty()) {
    print_out("{}\n", info.substr(1));
  }
  for (const StoredGraph& graph : bundle.graphs) {
    print_graph(bundle, graph);
  }
}

}  // namespace graphtune::tools
