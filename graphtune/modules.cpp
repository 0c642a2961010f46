// The list of a folder's modules, modules.json:
// {"format": "graphtune modules", "format_version": 1,
//  "modules": [{"name": "text.encoder", "folder": "text.encoder", "manifest": {"size": 5, "sha256":
//  "…"}}]}
#include "graphtune/modules.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graphtune/bundle_files.h"
#include "graphtune/constant.h"
#include "graphtune/digest.h"
#include "graphtune/error.h"
#include "graphtune/folder_replacement.h"
#include "graphtune/json_view.h"

namespace graphtune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "graphtune modules";
constexpr std::uint64_t kMaxListSize = std::uint64_t{64} << 20;
constexpr std::size_t kMaxFolderName = 100;

StoredModule module_from_json(const JsonView& json) {
  json.allow_only({"name", "folder", "manifest"});
  StoredModule module;
  const JsonView name = json.at("name");
  module.name = name.string(kMaxBundleName);
  if (module.name.empty()) {
    name.fail("an empty name");
  }
  const JsonView folder = json.at("folder");
  module.folder = folder.string(kMaxBundleName);
  const std::string fault = bundle_name_fault(module.folder);
  if (!fault.empty()) {
    folder.fail(fault);
  }
  module.manifest = stored_file_from_json(json.at("manifest"));
  return module;
}

/// Two modules of one name could not be told apart, nor two bundles in one folder.
void check_together(const std::vector<StoredModule>& modules, const JsonView& json) {
  std::set<std::string_view> names;
  std::set<std::string> folders;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (!names.insert(modules[i].name).second) {
      json.at(i).at("name").fail("another module has the same name");
    }
    // Sorted with a '/' at their ends, nested folders are neighbours.
    const std::string inside = modules[i].folder + "/";
    const auto [place, is_own] = folders.insert(inside);
    const auto next = std::next(place);
    if (!is_own || (next != folders.end() && next->starts_with(inside)) ||
        (place != folders.begin() && inside.starts_with(*std::prev(place)))) {
      json.at(i).at("folder").fail("is also another module's, or lies within it");
    }
  }
}

ModuleFolder list_from_json(const JsonView& json) {
  const auto format = json.find("format");
  if (!format || !format->json().is_string() || format->string() != kFormat) {
    json.fail(
        fmt::format("has no \"format\": \"{}\"; it is no list of graphtune modules", kFormat));
  }
  const JsonView version = json.at("format_version");
  const std::int64_t number = version.integer(1, std::numeric_limits<std::int32_t>::max());
  if (number != ModuleFolder::kFormatVersion) {
    version.fail(fmt::format("the list has format version {}, this graphtune reads {}: {}", number,
                             ModuleFolder::kFormatVersion,
                             number > ModuleFolder::kFormatVersion
                                 ? "update graphtune"
                                 : "tune and save the modules again"));
  }
  json.allow_only({"format", "format_version", "modules"});
  ModuleFolder list;
  const JsonView modules = json.at("modules");
  for (const JsonView& module : modules.items()) {
    list.modules.push_back(module_from_json(module));
  }
  if (list.modules.empty()) {
    modules.fail("names no module");
  }
  check_together(list.modules, modules);
  return list;
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

/// A name for a module's folder that any file system takes, also one that ignores case.
std::string folder_name(std::string_view name, std::set<std::string>& taken) {
  std::string base;
  for (const char c : name.substr(0, kMaxFolderName)) {
    base += is_plain(c) || (c == '.' && !base.empty()) ? c : '_';
  }
  for (int number = 1;; ++number) {
    std::string candidate = number == 1 ? base : fmt::format("{}_{}", base, number);
    std::string lower = candidate;
    for (char& c : lower) {
      c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    if (taken.insert(lower).second) {
      return candidate;
    }
  }
}

void check_names(std::span<const ModuleSource> modules) {
  if (modules.empty()) {
    throw ValueError("there is no module to write");
  }
  std::set<std::string_view> names;
  for (const ModuleSource& module : modules) {
    if (module.name.empty()) {
      throw ValueError("a module to write has an empty name");
    }
    if (!names.insert(module.name).second) {
      throw ValueError(
          fmt::format("two modules to write have the name {}", python_repr(module.name)));
    }
  }
}

void write_checked(std::span<const ModuleSource> modules, const fs::path& path) {
  const FolderReplacement replacement(path);
  std::set<std::string> taken{std::string(kModulesName)};
  ModuleFolder list;
  for (const ModuleSource& module : modules) {
    const std::string folder = folder_name(module.name, taken);
    if (module.sources != nullptr) {
      write_bundle(*module.bundle, *module.sources, replacement.path() / folder);
    } else {
      copy_bundle(*module.bundle, replacement.path() / folder);
    }
    const fs::path manifest = replacement.path() / folder / kManifestName;
    list.modules.push_back(
        {module.name, folder, {fs::file_size(manifest), to_hex(sha256_file(manifest))}});
  }
  const std::string text = write_module_list(list);
  try {
    (void)parse_module_list(text);  // what is written can be read
  } catch (const BundleError& error) {
    throw ValueError(fmt::format("the modules can't be saved like this: {}", error.what()));
  }
  write_text_file(replacement.path() / kModulesName, text);
  replacement.commit();
}

ModuleFolder read_checked(const fs::path& path) {
  if (!fs::exists(path)) {
    throw BundleError(fmt::format("{} does not exist", path.string()));
  }
  if (!is_module_folder(path)) {
    throw BundleError(fmt::format(
        "{} holds no modules: it has no {}{}", path.string(), kModulesName,
        fs::is_regular_file(path / kManifestName) ? "; it is the bundle of one module" : ""));
  }
  const fs::path folder = fs::canonical(path);
  ModuleFolder list;
  try {
    list = parse_module_list(read_bundle_text(folder / kModulesName, kMaxListSize));
  } catch (const BundleError& error) {
    throw BundleError(fmt::format("{}: {}", path.string(), error.what()));
  }
  list.folder = folder;
  for (const StoredModule& module : list.modules) {
    check_file(folder, fmt::format("{}/{}", module.folder, kManifestName), module.manifest, true);
  }
  return list;
}

}  // namespace

const StoredModule& ModuleFolder::at(std::string_view name) const {
  const auto found = std::find_if(modules.begin(), modules.end(),
                                  [&](const StoredModule& module) { return module.name == name; });
  if (found != modules.end()) {
    return *found;
  }
  std::vector<std::string> names;
  names.reserve(modules.size());
  for (const StoredModule& module : modules) {
    names.push_back(module.name);
  }
  throw ValueError(fmt::format("{} holds no module {}; it holds {}", folder.string(),
                               python_repr(name), fmt::join(names, ", ")));
}

void write_modules(std::span<const ModuleSource> modules, const fs::path& path) {
  if (path.empty()) {
    throw ValueError("the path to write the modules to is empty");
  }
  check_names(modules);
  try {
    write_checked(modules, path);
  } catch (const fs::filesystem_error& error) {
    throw BundleError(fmt::format("modules {} can't be written: {}", path.string(), error.what()));
  }
}

bool holds_modules(const fs::path& path) { return is_module_folder(path); }

ModuleFolder read_modules(const fs::path& path) {
  try {
    return read_checked(path);
  } catch (const BundleError&) {
    throw;
  } catch (const Error& error) {
    throw BundleError(fmt::format("{} can't be read: {}", path.string(), error.what()));
  } catch (const fs::filesystem_error& error) {
    throw BundleError(fmt::format("{} can't be read: {}", path.string(), error.what()));
  }
}

std::map<std::string, Module> load_modules(const fs::path& path, const LoadOptions& options) {
  const ModuleFolder list = read_modules(path);
  std::map<std::string, Module> modules;
  for (const StoredModule& module : list.modules) {
    modules.emplace(module.name, Module::load(list.path_of(module), options));
  }
  return modules;
}

ModuleFolder parse_module_list(std::string_view text) {
  try {
    const Json json = parse_json(text, kModulesName);
    return list_from_json(JsonView(json, std::string(kModulesName)));
  } catch (const ValueError& error) {
    throw BundleError(error.what());
  }
}

std::string write_module_list(const ModuleFolder& modules) {
  Json list = Json::array();
  for (const StoredModule& module : modules.modules) {
    list.push_back(
        {{"name", module.name},
         {"folder", module.folder},
         {"manifest", {{"size", module.manifest.size}, {"sha256", module.manifest.sha256}}}});
  }
  const Json json = {{"format", kFormat},
                     {"format_version", ModuleFolder::kFormatVersion},
                     {"modules", std::move(list)}};
  try {
    return json.dump(1) + "\n";
  } catch (const Json::exception& error) {
    throw ValueError(fmt::format("a module's name is no UTF-8: {}", error.what()));
  }
}

}  // namespace graphtune
