// A bundle's manifest.json:
// {"format": "graphtune bundle", "format_version": 1, "module": "…", "strict": true,
//  "signature": […], "graphs": [{"spec": …, "plan": …, "output_alias": […], "engines": [{"name": …,
//  "backend": …, "folder": …, "native_code": false, "info": {…}}], "changes": (where there are any)
//  see graph_json.h}],
//  "files": {"graph_0/openvino/model.xml": {"size": 5, "sha256": "…"}},
//  "versions": {"graphtune": "…", "weights": sha256 of the model's, …}, "hardware": {…}, "info":
//  {…}, "sha256": of all the rest, written without spaces and line breaks, members sorted by name}
#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graphtune/bundle.h"
#include "graphtune/bundle_files.h"
#include "graphtune/digest.h"
#include "graphtune/engines/registry.h"
#include "graphtune/error.h"
#include "graphtune/graph_json.h"
#include "graphtune/json_view.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

constexpr std::string_view kFormat = "graphtune bundle";
constexpr std::size_t kMaxNameSize = 256;
constexpr std::size_t kMaxModuleNameSize = 1024;  // 200 characters of any alphabet
constexpr std::int64_t kMaxFileSize = std::int64_t{1} << 50;
constexpr const char* kDigest = "sha256";

std::map<std::string, std::string> texts_from_json(const JsonView& json) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : json.members()) {
    texts[key] = value.string();
  }
  return texts;
}

/// A text that says something.
const std::string& text_from_json(const JsonView& json, std::size_t max_size) {
  const std::string& text = json.string(max_size);
  if (text.empty()) {
    json.fail("must not be empty");
  }
  return text;
}

const std::string& sha256_from_json(const JsonView& json) {
  const std::string& digits = json.string(64);
  if (digits.size() != 64 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    json.fail("expected 64 lower-case hexadecimal digits");
  }
  return digits;
}

std::string info_from_json(const JsonView& json) {
  if (!json.json().is_object()) {
    json.fail("expected an object");
  }
  return json.json().dump();
}

std::string file_name_from_json(const JsonView& json) {
  const std::string& name = json.string(kMaxBundleName);
  const std::string fault = bundle_name_fault(name);
  if (!fault.empty()) {
    json.fail(fault);
  }
  return name;
}

StoredEngine engine_from_json(const JsonView& json) {
  json.allow_only({"name", "backend", "folder", "native_code", "info"});
  StoredEngine engine;
  const JsonView name = json.at("name");
  engine.name = name.string(kMaxNameSize);
  if (engine.name.empty() || engine.name == Plan::kEager) {
    name.fail("is no name for an engine");
  }
  const JsonView backend = json.at("backend");
  engine.backend = backend.string(kMaxNameSize);
  if (!is_backend_name(engine.backend)) {
    backend.fail("is no name of a backend: lower-case letters, digits and '_' are allowed");
  }
  engine.folder = file_name_from_json(json.at("folder"));
  engine.native_code = json.at("native_code").boolean();
  if (const auto info = json.find("info")) {
    engine.info_json = info_from_json(*info);
  }
  return engine;
}

bool is_tuned(const StoredGraph& graph) { return graph.spec.eager_reason().empty(); }

void check_plan(const StoredGraph& graph, const JsonView& json) {
  if (is_tuned(graph) && graph.plan.entries.empty()) {
    json.fail("the graph was tuned, but has no plan");
  }
  for (std::size_t i = 0; i < graph.plan.entries.size(); ++i) {
    const std::string& name = graph.plan.entries[i].engine;
    const bool known = std::any_of(graph.engines.begin(), graph.engines.end(),
                                   [&](const StoredEngine& engine) { return engine.name == name; });
    if (!known && name != Plan::kEager) {
      json.at(i).fail(fmt::format("the graph has no engine {}", python_repr(name)));
    }
  }
  try {
    check_regions(graph.plan, graph.spec.contract().used_symbols());
  } catch (const ValueError& error) {
    json.fail(error.what());
  }
}

StoredGraph graph_from_json(const JsonView& json, bool strict) {
  json.allow_only({"spec", "plan", "engines", "output_alias", "changes"});
  const JsonView spec = json.at("spec");
  StoredGraph graph{graph_spec_from_json(spec), plan_from_json(json.at("plan")), {}, {}, {}};
  if (graph.spec.input_spec().strict() != strict) {
    spec.at("inputs").fail("is strict where the bundle is not, or the other way round");
  }
  if (is_tuned(graph)) {
    (void)spec.at("contract");  // calls are never checked against what only the samples showed
  }
  std::set<std::string> names;
  for (const JsonView& item : json.at("engines").items()) {
    graph.engines.push_back(engine_from_json(item));
    if (!names.insert(graph.engines.back().name).second) {
      item.fail("another engine of this graph has the same name");
    }
  }
  check_plan(graph, json.at("plan"));
  const JsonView aliases = json.at("output_alias");
  const auto last_input = static_cast<std::int64_t>(graph.spec.input_spec().tensor_count()) - 1;
  for (const JsonView& alias : aliases.items()) {
    graph.output_alias.push_back(static_cast<std::int32_t>(alias.integer(-1, last_input)));
  }
  std::size_t output_count = graph.spec.output_spec().tensor_count();
  if (const std::optional<JsonView> changes = json.find("changes")) {
    graph.changes = argument_changes_from_json(*changes);
    try {
      check_changes(*graph.changes, output_count, graph.spec.input_spec().tensor_count());
    } catch (const ValueError& error) {
      changes->fail(error.what());
    }
    output_count += graph.changes->extra_results;
  }
  if (graph.output_alias.size() != output_count &&
      (is_tuned(graph) || !graph.output_alias.empty())) {
    aliases.fail(
        fmt::format("expected {} numbers, one for each tensor that engines give", output_count));
  }
  return graph;
}

std::map<std::string, StoredFile> files_from_json(const JsonView& json) {
  std::map<std::string, StoredFile> files;
  for (const auto& [name, file] : json.members()) {
    const std::string fault = bundle_name_fault(name);
    if (!fault.empty()) {
      file.fail(fault);
    }
    if (name == kManifestName) {
      file.fail("the manifest can't vouch for itself");
    }
    files.emplace(name, stored_file_from_json(file));
  }
  // "a" and "a/b" can't both be files.
  for (const auto& [name, file] : files) {
    for (std::size_t slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      if (files.count(name.substr(0, slash)) != 0) {
        json.fail(fmt::format("{} lies within a file", python_repr(name)));
      }
    }
  }
  return files;
}

/// Graphs and engines of one bundle must differ, and each engine have files of its own.
void check_together(const Bundle& bundle, const JsonView& json) {
  std::set<std::string_view> names;
  std::unordered_map<CallKey, std::size_t, CallKeyHash> keys;
  std::set<std::string> folders;
  const JsonView graphs = json.at("graphs");
  for (std::size_t i = 0; i < bundle.graphs.size(); ++i) {
    const StoredGraph& graph = bundle.graphs[i];
    if (!names.insert(graph.spec.name()).second) {
      graphs.at(i).fail("another graph has the same name");
    }
    const auto [other, is_new] = keys.emplace(graph.spec.input_spec().key(), i);
    if (!is_new) {
      graphs.at(i).fail(
          fmt::format("its calls are those of {}", bundle.graphs[other->second].spec.name()));
    }
    for (std::size_t j = 0; j < graph.engines.size(); ++j) {
      const std::string inside = graph.engines[j].folder + "/";
      const JsonView folder = graphs.at(i).at("engines").at(j).at("folder");
      // Sorted with a '/' at their ends, nested folders are neighbours.
      const auto [place, is_own] = folders.insert(inside);
      const auto next = std::next(place);
      if (!is_own || (next != folders.end() && next->compare(0, inside.size(), inside) == 0) ||
          (place != folders.begin() &&
           inside.compare(0, std::prev(place)->size(), *std::prev(place)) == 0)) {
        folder.fail("is also another engine's, or lies within it");
      }
      const auto file = bundle.files.lower_bound(inside);
      if (file == bundle.files.end() || file->first.compare(0, inside.size(), inside) != 0) {
        folder.fail("no file of this engine is listed under /files");
      }
    }
  }
}

void check_signature(const Bundle& bundle, const JsonView& json) {
  const bool has_arguments =
      std::any_of(bundle.graphs.begin(), bundle.graphs.end(), [](const StoredGraph& graph) {
        return is_tuned(graph) && graph.spec.input_spec().tensor_count() > 0;
      });
  if (bundle.signature.parameters().empty() && has_arguments) {
    json.fail("has no parameter, but the calls of the graphs have arguments");
  }
}

/// What every writer knows of itself, of the model and of the machine.
void check_facts(const JsonView& json) {
  const JsonView versions = json.at("versions");
  (void)text_from_json(versions.at("graphtune"), kMaxNameSize);
  (void)sha256_from_json(versions.at("weights"));
  const JsonView hardware = json.at("hardware");
  for (const char* key : {"architecture", "cpu", "instruction_set", "machine_id"}) {
    (void)hardware.at(key);  // may be empty where it can't be found out
  }
}

std::string digest_of(Json manifest) {
  manifest.erase(kDigest);
  return to_hex(sha256(manifest.dump()));
}

void check_digest(const JsonView& json) {
  if (digest_of(json.json()) != sha256_from_json(json.at(kDigest))) {
    json.fail(
        "its content is not what its sha256 says: it is damaged or was changed. Get the bundle "
        "again from where it came, or save the tuned module again");
  }
}

Bundle bundle_from_json(const JsonView& json, bool verify) {
  const auto format = json.find("format");
  if (!format || !format->json().is_string() || format->string() != kFormat) {
    json.fail(fmt::format("has no \"format\": \"{}\"; it is no graphtune bundle", kFormat));
  }
  const JsonView version = json.at("format_version");
  const std::int64_t number = version.integer(1, std::numeric_limits<std::int32_t>::max());
  if (number != Bundle::kFormatVersion) {
    version.fail(fmt::format(
        "the bundle has format version {}, this graphtune reads {}: {}", number,
        Bundle::kFormatVersion,
        number > Bundle::kFormatVersion ? "update graphtune" : "tune and save the module again"));
  }
  json.allow_only({"format", "format_version", "module", "strict", "signature", "graphs", "files",
                   "versions", "hardware", "info", kDigest});
  if (verify) {
    check_digest(json);
  } else {
    (void)sha256_from_json(json.at(kDigest));
  }
  Bundle bundle;
  bundle.module_name = text_from_json(json.at("module"), kMaxModuleNameSize);
  bundle.strict = json.at("strict").boolean();
  bundle.signature = signature_from_json(json.at("signature"));
  for (const JsonView& graph : json.at("graphs").items()) {
    bundle.graphs.push_back(graph_from_json(graph, bundle.strict));
  }
  bundle.files = files_from_json(json.at("files"));
  check_signature(bundle, json.at("signature"));
  check_facts(json);
  bundle.versions = texts_from_json(json.at("versions"));
  bundle.hardware = texts_from_json(json.at("hardware"));
  if (const auto info = json.find("info")) {
    bundle.info_json = info_from_json(*info);
  }
  check_together(bundle, json);
  return bundle;
}

std::string sealed(Json manifest) {
  manifest[kDigest] = digest_of(manifest);
  return manifest.dump(1) + "\n";
}

Json info_to_json(const std::string& text, std::string_view what) {
  Json info = parse_json(text.empty() ? "{}" : text, what);
  if (!info.is_object()) {
    throw ValueError(fmt::format("{} must be a JSON object", what));
  }
  return info;
}

Json graph_to_json(const StoredGraph& graph) {
  Json engines = Json::array();
  for (const StoredEngine& engine : graph.engines) {
    engines.push_back(
        {{"name", engine.name},
         {"backend", engine.backend},
         {"folder", engine.folder},
         {"native_code", engine.native_code},
         {"info", info_to_json(engine.info_json, "info_json of engine " + engine.name)}});
  }
  Json spec = to_json(graph.spec);
  std::vector<std::int32_t> aliases = graph.output_alias;
  if (is_tuned(graph)) {
    if (!spec.contains("contract")) {
      spec["contract"] = to_json(graph.spec.contract());
    }
    if (aliases.empty()) {
      aliases.resize(graph.spec.output_spec().tensor_count() +
                         (graph.changes ? graph.changes->extra_results : 0),
                     -1);
    }
  }
  Json json = {{"spec", std::move(spec)},
               {"plan", to_json(graph.plan)},
               {"engines", std::move(engines)},
               {"output_alias", std::move(aliases)}};
  if (graph.changes) {
    json["changes"] = to_json(*graph.changes);
  }
  return json;
}

}  // namespace

StoredFile stored_file_from_json(const JsonView& json) {
  json.allow_only({"size", "sha256"});
  StoredFile stored;
  stored.size = static_cast<std::uint64_t>(json.at("size").integer(0, kMaxFileSize));
  stored.sha256 = sha256_from_json(json.at("sha256"));
  return stored;
}

Bundle parse_manifest(std::string_view text, bool verify) {
  try {
    const Json json = parse_json(text, kManifestName);
    return bundle_from_json(JsonView(json, std::string(kManifestName)), verify);
  } catch (const ValueError& error) {
    throw BundleError(error.what());
  }
}

std::string seal_manifest(std::string_view text) {
  Json json = parse_json(text, kManifestName);
  if (!json.is_object()) {
    throw ValueError("a manifest is a JSON object");
  }
  return sealed(std::move(json));
}

std::string write_manifest(const Bundle& bundle) {
  Json graphs = Json::array();
  for (const StoredGraph& graph : bundle.graphs) {
    graphs.push_back(graph_to_json(graph));
  }
  Json files = Json::object();
  for (const auto& [name, file] : bundle.files) {
    files[name] = {{"size", file.size}, {"sha256", file.sha256}};
  }
  Json json = {{"format", kFormat},
               {"format_version", Bundle::kFormatVersion},
               {"module", bundle.module_name},
               {"strict", bundle.strict},
               {"signature", to_json(bundle.signature)},
               {"graphs", std::move(graphs)},
               {"files", std::move(files)},
               {"versions", bundle.versions},
               {"hardware", bundle.hardware},
               {"info", info_to_json(bundle.info_json, "info_json of the bundle")}};
  try {
    return sealed(std::move(json));
  } catch (const Json::exception& error) {
    throw ValueError(fmt::format("a text of the bundle is no UTF-8: {}", error.what()));
  }
}

}  // namespace graphtune
