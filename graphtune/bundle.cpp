#include "graphtune/bundle.h"

#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "graphtune/bundle_files.h"
#include "graphtune/error.h"
#include "graphtune/folder_replacement.h"

namespace graphtune {
namespace {

namespace fs = std::filesystem;

/// Refuses copies of engines that are not what was read with the bundle.
void check_unchanged(const Bundle& read, const std::map<std::string, StoredFile>& copied) {
  const auto refuse = [&](const std::string& name, const char* what) {
    throw BundleError(
        fmt::format("bundle {}: {} {} since the bundle was loaded: load it again, or tune again",
                    read.folder.string(), name, what));
  };
  for (const auto& [name, file] : copied) {
    const auto known = read.files.find(name);
    if (known == read.files.end() || known->second.sha256 != file.sha256) {
      refuse(name, "was changed");
    }
  }
  for (const StoredGraph& graph : read.graphs) {
    for (const StoredEngine& engine : graph.engines) {
      for (const auto& [name, file] : read.files) {
        if (name.starts_with(engine.folder + "/") && copied.count(name) == 0) {
          refuse(name, "was removed");
        }
      }
    }
  }
}

void write_manifest_file(const Bundle& bundle, const fs::path& folder) {
  const std::string text = write_manifest(bundle);
  try {
    (void)parse_manifest(text, true);  // what is written can be read
  } catch (const BundleError& error) {
    throw ValueError(fmt::format("the bundle can't be saved like this: {}", error.what()));
  }
  write_text_file(folder / kManifestName, text);
}

/// `is_copy`: the files have to be those of `bundle`; else it gets those that are found.
void write_checked(const Bundle& bundle, const std::map<std::string, fs::path>& sources,
                   const fs::path& path, bool is_copy) {
  const FolderReplacement replacement(path);
  Bundle written = bundle;
  written.files.clear();
  for (const StoredGraph& graph : bundle.graphs) {
    for (const StoredEngine& engine : graph.engines) {
      const auto source = sources.find(engine.folder);
      if (source == sources.end()) {
        throw ValueError(fmt::format("{}: engine {} has no source for its folder {}",
                                     graph.spec.name(), engine.name, engine.folder));
      }
      copy_files(source->second, replacement.path(), engine.folder, written.files);
    }
  }
  if (is_copy) {
    check_unchanged(bundle, written.files);
  }
  write_manifest_file(written, replacement.path());
  replacement.commit();
}

void write_or_say_why(const Bundle& bundle, const std::map<std::string, fs::path>& sources,
                      const fs::path& path, bool is_copy) {
  if (path.empty()) {
    throw ValueError("the path of a bundle is empty");
  }
  try {
    write_checked(bundle, sources, path, is_copy);
  } catch (const fs::filesystem_error& error) {
    throw BundleError(fmt::format("bundle {} can't be written: {}", path.string(), error.what()));
  }
}

}  // namespace

void write_bundle(const Bundle& bundle, const std::map<std::string, fs::path>& sources,
                  const fs::path& path) {
  write_or_say_why(bundle, sources, path, false);
}

void copy_bundle(const Bundle& bundle, const fs::path& path) {
  std::map<std::string, fs::path> sources;
  for (const StoredGraph& graph : bundle.graphs) {
    for (const StoredEngine& engine : graph.engines) {
      sources[engine.folder] = bundle.folder / engine.folder;
    }
  }
  write_or_say_why(bundle, sources, path, true);
}

Bundle read_bundle(const fs::path& path, const OpenOptions& options) {
  try {
    if (!fs::exists(path)) {
      throw BundleError(fmt::format("bundle {} does not exist", path.string()));
    }
    if (!fs::is_directory(path)) {
      throw BundleError(fmt::format("{} is no bundle: a bundle is a folder", path.string()));
    }
    const fs::path folder = fs::canonical(path);
    if (!fs::is_regular_file(folder / kManifestName)) {
      throw BundleError(
          is_module_folder(folder)
              ? fmt::format("{} holds the bundles of several modules: load it as such "
                            "(load_modules), or one of them",
                            path.string())
              : fmt::format("{} is no bundle: it has no {}", path.string(), kManifestName));
    }
    Bundle bundle;
    try {
      bundle = parse_manifest(read_bundle_text(folder / kManifestName), true);
    } catch (const BundleError& error) {
      throw BundleError(fmt::format("bundle {}: {}", path.string(), error.what()));
    }
    bundle.folder = folder;
    check_files(bundle, options.verify);
    return bundle;
  } catch (const BundleError&) {
    throw;
  } catch (const Error& error) {
    throw BundleError(fmt::format("bundle {} can't be read: {}", path.string(), error.what()));
  } catch (const fs::filesystem_error& error) {
    throw BundleError(fmt::format("bundle {} can't be read: {}", path.string(), error.what()));
  }
}

}  // namespace graphtune
