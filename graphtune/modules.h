#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graphtune/bundle.h"
#include "graphtune/export.h"
#include "graphtune/module.h"

namespace graphtune {

/// A module among several, and where its bundle is.
struct StoredModule {
  std::string name;     ///< of a pipeline: its path in it, "text.encoder"
  std::string folder;   ///< its bundle, relative to the folder of all
  StoredFile manifest;  ///< the bundle's, which in turn vouches for the bundle's files
};

/// What `save` writes for several modules: a folder with `modules.json` and one bundle a module. No
/// pickle.
struct ModuleFolder {
  static constexpr int kFormatVersion = 1;

  std::vector<StoredModule> modules;  ///< at least one; in the order in which they were saved
  std::filesystem::path folder;       ///< where it was read from

  /// Throws ValueError that lists the names there are.
  [[nodiscard]] GRAPHTUNE_API const StoredModule& at(std::string_view name) const;
  [[nodiscard]] std::filesystem::path path_of(const StoredModule& module) const {
    return folder / module.folder;
  }
};

/// A module to write: its bundle, and where its engines' files come from (see write_bundle);
/// without sources a bundle that was read, which is copied (see copy_bundle). Owns nothing.
struct ModuleSource {
  std::string name;
  const Bundle* bundle = nullptr;
  const std::map<std::string, std::filesystem::path>* sources = nullptr;
};

/// Writes the modules' bundles and the list of them to `path`, whole or not at all, as write_bundle
/// does, with the same errors. Throws ValueError for no module, an empty name and a name given
/// twice.
GRAPHTUNE_API void write_modules(std::span<const ModuleSource> modules,
                                 const std::filesystem::path& path);

/// Whether `path` holds several modules: else it is a bundle, or nothing of graphtune's.
[[nodiscard]] GRAPHTUNE_API bool holds_modules(const std::filesystem::path& path);

/// Reads and checks the list and the digest of each bundle's manifest; the bundles themselves are
/// checked when they are read. Throws BundleError as read_bundle does.
[[nodiscard]] GRAPHTUNE_API ModuleFolder read_modules(const std::filesystem::path& path);

/// Loads all modules of a folder, by name. Throws BundleError, EngineError. A folder with a bundle
/// of one module is refused: Module::load takes it.
[[nodiscard]] GRAPHTUNE_API std::map<std::string, Module> load_modules(
    const std::filesystem::path& path, const LoadOptions& options = {});

/// The list's text alone (fuzzed): throws BundleError.
[[nodiscard]] GRAPHTUNE_API ModuleFolder parse_module_list(std::string_view text);
/// Throws ValueError for what a list can't hold.
[[nodiscard]] GRAPHTUNE_API std::string write_module_list(const ModuleFolder& modules);

}  // namespace graphtune
