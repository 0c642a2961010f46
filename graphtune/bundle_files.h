#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "graphtune/bundle.h"
#include "graphtune/json_view.h"

namespace graphtune {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::size_t kMaxBundleName = 1024;

inline constexpr std::uint64_t kMaxManifestSize = std::uint64_t{256} << 20U;

/// The whole text of a file of a bundle's own, such as its manifest. Throws BundleError, also for
/// more bytes than `max_size`.
[[nodiscard]] std::string read_bundle_text(const std::filesystem::path& path,
                                           std::uint64_t max_size = kMaxManifestSize);

/// Why a file or folder of a bundle can't have this name ("it is absolute"); empty when it can.
/// Names are relative, with '/', and made of plain components: none can lead out of the bundle.
[[nodiscard]] std::string bundle_name_fault(std::string_view name);

/// A file's size and digest as a manifest has them. Throws ValueError with the path in the JSON.
[[nodiscard]] StoredFile stored_file_from_json(const JsonView& json);

/// Checks that a file is there, a regular one within `folder`, and has its size and (`verify`) its
/// digest. Throws BundleError.
void check_file(const std::filesystem::path& folder, const std::string& name,
                const StoredFile& file, bool verify);

/// Checks all files of a bundle and that its engines' folders hold nothing else. Throws
/// BundleError.
void check_files(const Bundle& bundle, bool verify);

/// Copies the files under `source` to `target`/`folder` and lists them by their names in the
/// bundle. Throws BundleError.
void copy_files(const std::filesystem::path& source, const std::filesystem::path& target,
                const std::string& folder, std::map<std::string, StoredFile>& files);

/// Makes sure that a file's or folder's contents are on the disk. Throws BundleError.
void flush_to_disk(const std::filesystem::path& path);

}  // namespace graphtune
