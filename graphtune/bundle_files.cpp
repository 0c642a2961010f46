#include "graphtune/bundle_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "graphtune/constant.h"
#include "graphtune/digest.h"
#include "graphtune/error.h"
#include "graphtune/file.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& bundle, const std::string& name, const std::string& what) {
  throw BundleError(fmt::format("bundle {}: {}: {}", bundle.string(), name, what));
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

/// Files below `folder`, relative to `base`; links to folders are not entered.
std::set<std::string> list_files(const fs::path& folder, const fs::path& base) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_symlink() || !entry.is_directory()) {
      names.insert(entry.path().lexically_relative(base).generic_string());
    }
  }
  return names;
}

}  // namespace

std::string read_bundle_text(const fs::path& path, std::uint64_t max_size) {
  try {
    return read_file(path, max_size);
  } catch (const Error& error) {
    throw BundleError(error.what());
  }
}

std::string bundle_name_fault(std::string_view name) {
  if (name.empty()) {
    return "an empty name";
  }
  if (name.size() > kMaxBundleName) {
    return "the name is too long";
  }
  if (!is_utf8(name)) {
    return "the name is no UTF-8";
  }
  if (name.front() == '/') {
    return "the name is absolute";
  }
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') {
      return "the name has a control character or a backslash";
    }
  }
  std::size_t start = 0;
  while (start <= name.size()) {
    const std::size_t end = std::min(name.find('/', start), name.size());
    const std::string_view component = name.substr(start, end - start);
    if (component == "..") {
      return "the name leads out of the bundle";
    }
    if (component.empty() || component == ".") {
      return "the name has an empty component or '.'";
    }
    start = end + 1;
  }
  return {};
}

void check_file(const fs::path& folder, const std::string& name, const StoredFile& file,
                bool verify) {
  std::error_code error;
  // Symbolic links are followed to the end: they may lead about in the bundle, not out of it.
  const fs::path path = fs::canonical(folder / name, error);
  if (error == std::errc::no_such_file_or_directory) {
    refuse(folder, name, "is missing");
  }
  if (error) {
    refuse(folder, name, error.message());
  }
  if (!is_within(path, folder)) {
    refuse(folder, name, "is a symbolic link that leaves the bundle");
  }
  if (!fs::is_regular_file(path, error)) {
    refuse(folder, name, "is no regular file");
  }
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) {
    refuse(folder, name, error.message());
  }
  if (size != file.size) {
    refuse(folder, name,
           fmt::format("has {} bytes, the manifest says {}: it is damaged or was changed", size,
                       file.size));
  }
  if (verify && to_hex(sha256_file(path)) != file.sha256) {
    refuse(folder, name, "its SHA-256 is not the manifest's: it is damaged or was changed");
  }
}

void check_files(const Bundle& bundle, bool verify) {
  for (const auto& [name, file] : bundle.files) {
    check_file(bundle.folder, name, file, verify);
  }
  for (const StoredGraph& graph : bundle.graphs) {
    for (const StoredEngine& engine : graph.engines) {
      for (const std::string& name : list_files(bundle.folder / engine.folder, bundle.folder)) {
        if (bundle.files.count(name) == 0) {
          refuse(bundle.folder, name, "lies in an engine's folder, but is not in the manifest");
        }
      }
    }
  }
}

void copy_files(const fs::path& source, const fs::path& target, const std::string& folder,
                std::map<std::string, StoredFile>& files) {
  for (const std::string& relative : list_files(source, source)) {
    const std::string name = fmt::format("{}/{}", folder, relative);
    const std::string fault = bundle_name_fault(name);
    if (!fault.empty()) {
      throw BundleError(fmt::format("{}: {}", python_repr(name), fault));
    }
    const fs::path copy = target / name;
    fs::create_directories(copy.parent_path());
    fs::copy_file(source / relative, copy);
    flush_to_disk(copy);
    files[name] = {fs::file_size(copy), to_hex(sha256_file(copy))};
  }
}

void flush_to_disk(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int result = file < 0 ? -1 : fsync(file);
  const int reason = errno;
  if (file >= 0) {
    close(file);
  }
  // EINVAL: a file system that has nothing to flush.
  if (result != 0 && reason != EINVAL) {
    throw BundleError(fmt::format("{}: {}", path.string(), std::strerror(reason)));
  }
}

}  // namespace graphtune
