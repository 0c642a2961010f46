#include "graphtune/folder_replacement.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "graphtune/bundle_files.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

namespace fs = std::filesystem;

bool has_text(const fs::path& path, std::string_view text) {
  return fs::is_regular_file(path) && read_bundle_text(path).find(text) != std::string::npos;
}

void check_replaceable(const fs::path& path) {
  if (!fs::exists(path)) {
    return;
  }
  if (fs::is_directory(path) &&
      (fs::is_empty(path) || has_text(path / kManifestName, "\"graphtune bundle\"") ||
       has_text(path / kModulesName, "\"graphtune modules\""))) {
    return;
  }
  throw ValueError(fmt::format(
      "{} exists and is no graphtune bundle: choose another path or remove it", path.string()));
}

fs::path make_folder_beside(const fs::path& target) {
  static std::atomic<unsigned> counter = 0;
  for (;;) {
    fs::path path = target.parent_path() /
                    fmt::format(".{}.{}.{}.tmp", target.filename().string(), getpid(), counter++);
    if (fs::create_directory(path)) {
      return path;
    }
  }
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

}  // namespace

bool is_module_folder(const fs::path& path) {
  std::error_code ignored;  // what can't be looked at is said when it is read
  return fs::is_regular_file(path / kModulesName, ignored);
}

FolderReplacement::FolderReplacement(const fs::path& path) {
  const fs::path absolute = fs::weakly_canonical(fs::absolute(path));
  target_ = absolute.has_filename() ? absolute : absolute.parent_path();
  check_replaceable(target_);
  fs::create_directories(target_.parent_path());
  filled_ = make_folder_beside(target_);
}

FolderReplacement::~FolderReplacement() {
  std::error_code ignored;  // nothing depends on it any more
  fs::remove_all(filled_, ignored);
}

void FolderReplacement::commit() const {
  flush_to_disk(filled_);
  replace_folder(filled_, target_);
  flush_to_disk(target_.parent_path());
}

void write_text_file(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    throw BundleError(fmt::format("{}: can't be written (is the disk full?)", path.string()));
  }
  flush_to_disk(path);
}

}  // namespace graphtune
