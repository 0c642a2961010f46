#include "graphtune/bundle.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "graphtune/bundle_files.h"
#include "graphtune/error.h"
#include "graphtune/file.h"
#include "graphtune/json_view.h"

namespace graphtune {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxManifestSize = std::uint64_t{256} << 20;

/// A new folder beside `target`, removed at the end with what is in it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& target) {
    static std::atomic<unsigned> counter = 0;
    do {
      path_ = target.parent_path() /
              fmt::format(".{}.{}.{}.tmp", target.filename().string(), getpid(), counter++);
    } while (!fs::create_directory(path_));
  }
  ~TemporaryFolder() {
    std::error_code ignored;  // nothing depends on it any more
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string read_text(const fs::path& path) {
  try {
    return read_file(path, kMaxManifestSize);
  } catch (const Error& error) {
    throw BundleError(error.what());
  }
}

/// Refuses to replace anything but a bundle (of whatever version or state) or an empty folder.
void check_replaceable(const fs::path& path) {
  if (!fs::exists(path)) {
    return;
  }
  const bool is_folder = fs::is_directory(path);
  if (is_folder && fs::is_empty(path)) {
    return;
  }
  if (is_folder && fs::is_regular_file(path / kManifestName)) {
    const std::string text = read_text(path / kManifestName);
    if (text.find("\"graphtune bundle\"") != std::string::npos) {
      return;
    }
  }
  throw ValueError(fmt::format(
      "{} exists and is no graphtune bundle: choose another path or remove it", path.string()));
}

/// Puts the finished folder in the place of `target`; what was there is then at `finished`.
void replace_folder(const fs::path& finished, const fs::path& target) {
  if (!fs::exists(target)) {
    fs::rename(finished, target);
    return;
  }
  if (renameat2(AT_FDCWD, finished.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    throw fs::filesystem_error("can't replace the bundle", target,
                               std::error_code(errno, std::generic_category()));
  }
  // A file system that can't exchange: two steps, undone when the second fails.
  const fs::path old = finished.string() + ".old";
  fs::rename(target, old);
  std::error_code error;
  fs::rename(finished, target, error);
  fs::rename(old, error ? target : finished);
  if (error) {
    throw fs::filesystem_error("can't replace the bundle", target, error);
  }
}

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
  const fs::path path = folder / kManifestName;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    throw BundleError(fmt::format("{}: can't be written (is the disk full?)", path.string()));
  }
  flush_to_disk(path);
}

/// `is_copy`: the files have to be those of `bundle`; else it gets those that are found.
void write_checked(const Bundle& bundle, const std::map<std::string, fs::path>& sources,
                   const fs::path& path, bool is_copy) {
  // A link to a bundle stays one: what it points to is replaced.
  const fs::path absolute = fs::weakly_canonical(fs::absolute(path));
  const fs::path target = absolute.has_filename() ? absolute : absolute.parent_path();
  check_replaceable(target);
  fs::create_directories(target.parent_path());
  const TemporaryFolder temporary(target);
  Bundle written = bundle;
  written.files.clear();
  for (const StoredGraph& graph : bundle.graphs) {
    for (const StoredEngine& engine : graph.engines) {
      const auto source = sources.find(engine.folder);
      if (source == sources.end()) {
        throw ValueError(fmt::format("{}: engine {} has no source for its folder {}",
                                     graph.spec.name(), engine.name, engine.folder));
      }
      copy_files(source->second, temporary.path(), engine.folder, written.files);
    }
  }
  if (is_copy) {
    check_unchanged(bundle, written.files);
  }
  write_manifest_file(written, temporary.path());
  flush_to_disk(temporary.path());
  replace_folder(temporary.path(), target);
  flush_to_disk(target.parent_path());
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
      throw BundleError(fmt::format("{} is no bundle: it has no {}", path.string(), kManifestName));
    }
    Bundle bundle;
    try {
      bundle = parse_manifest(read_text(folder / kManifestName), true);
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
