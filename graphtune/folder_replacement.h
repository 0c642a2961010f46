#pragma once

#include <filesystem>
#include <string_view>

namespace graphtune {

inline constexpr std::string_view kModulesName = "modules.json";

/// Whether `path` is a folder that write_modules made, or says so: it has a modules.json.
[[nodiscard]] bool is_module_folder(const std::filesystem::path& path);

/// A folder that takes its place whole or not at all: filled beside it, then renamed. What was
/// there and could not be recovered is never touched: only an empty folder, a bundle, and a folder
/// of several modules are replaced, of whatever version or state. A link stays one: what it points
/// to is replaced.
///
/// Throws ValueError for a path where something else is, BundleError and filesystem_error when the
/// disk refuses.
class FolderReplacement {
 public:
  /// Makes the folders on the way, and the one to fill.
  explicit FolderReplacement(const std::filesystem::path& path);
  ~FolderReplacement();  ///< removes what was not committed, or what was replaced
  FolderReplacement(const FolderReplacement&) = delete;
  FolderReplacement& operator=(const FolderReplacement&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return filled_; }  ///< to be filled
  void commit() const;

 private:
  std::filesystem::path target_;
  std::filesystem::path filled_;
};

/// Writes a file and makes sure that it is on the disk. Throws BundleError.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace graphtune
