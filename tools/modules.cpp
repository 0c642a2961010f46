#include "graphtune/modules.h"

#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "graphtune/error.h"
#include "graphtune/json_view.h"
#include "graphtune/text_table.h"
#include "output.h"

namespace graphtune::tools {
namespace {

std::string plan_text(const StoredGraph& graph) {
  return graph.spec.eager_reason().empty() ? to_string(graph.plan) : "eager";
}

Json module_to_json(const StoredModule& module, const Bundle& bundle) {
  Json graphs = Json::array();
  for (const StoredGraph& graph : bundle.graphs) {
    graphs.push_back({{"name", graph.spec.name()},
                      {"plan", plan_text(graph)},
                      {"eager_reason", graph.spec.eager_reason()}});
  }
  return {{"name", module.name},
          {"folder", module.folder},
          {"files", bundle.files.size()},
          {"bytes", bundle_bytes(bundle)},
          {"graphs", std::move(graphs)}};
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  const auto count = static_cast<double>(bytes);
  return bytes < 10'000           ? fmt::format("{} bytes", bytes)
         : bytes < 10'000'000     ? fmt::format("{:.1f} kB", count / 1e3)
         : bytes < 10'000'000'000 ? fmt::format("{:.1f} MB", count / 1e6)
                                  : fmt::format("{:.1f} GB", count / 1e9);
}

std::uint64_t bundle_bytes(const Bundle& bundle) {
  std::uint64_t bytes = 0;
  for (const auto& [name, file] : bundle.files) {
    bytes += file.size;
  }
  return bytes;
}

std::filesystem::path choose_bundle(const std::filesystem::path& path, const std::string& module) {
  if (!holds_modules(path)) {
    if (!module.empty()) {
      OpenOptions unverified;  // only the name is used
      unverified.verify = false;
      const std::string name = read_bundle(path, unverified).module_name;
      if (name != module) {
        throw ValueError(fmt::format("{} is the bundle of one module, {}; it holds no module {}",
                                     path.string(), name, module));
      }
    }
    return path;
  }
  const ModuleFolder folder = read_modules(path);
  if (!module.empty()) {
    return folder.path_of(folder.at(module));
  }
  if (folder.modules.size() == 1) {
    return folder.path_of(folder.modules.front());
  }
  std::vector<std::string> names;
  for (const StoredModule& each : folder.modules) {
    names.push_back(each.name);
  }
  throw ValueError(fmt::format("{} holds {} modules: choose one with --module: {}", path.string(),
                               names.size(), fmt::join(names, ", ")));
}

void list_modules(const std::filesystem::path& path, bool json) {
  const ModuleFolder folder = read_modules(path);
  Json modules = Json::array();
  const std::vector<std::string> header = {"Module", "Folder", "Size", "Graph", "Plan"};
  std::vector<std::vector<std::string>> rows;
  for (const StoredModule& module : folder.modules) {
    const Bundle bundle = read_bundle(folder.path_of(module));
    modules.push_back(module_to_json(module, bundle));
    for (const StoredGraph& graph : bundle.graphs) {
      const bool first = &graph == bundle.graphs.data();
      rows.push_back({first ? module.name : "", first ? module.folder : "",
                      first ? bytes_text(bundle_bytes(bundle)) : "", graph.spec.name(),
                      plan_text(graph)});
    }
  }
  if (json) {
    const Json all = {{"folder", folder.folder.string()},
                      {"format_version", ModuleFolder::kFormatVersion},
                      {"modules", std::move(modules)}};
    print_out("{}\n", all.dump(1));
    return;
  }
  print_out(
      "{}: {} modules, all files as their manifests say\n\n{}\n\n"
      "--module NAME shows one of them.\n",
      folder.folder.string(), folder.modules.size(),
      format_table(header, rows, TableStyle::Simple));
}

}  // namespace graphtune::tools
