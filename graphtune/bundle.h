#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graphtune/argument_changes.h"
#include "graphtune/export.h"
#include "graphtune/graph_spec.h"
#include "graphtune/plan.h"
#include "graphtune/signature.h"

namespace graphtune {

/// An engine as a bundle stores it.
struct StoredEngine {
  std::string name;     ///< in the plan
  std::string backend;  ///< "aoti", "openvino" …
  std::string folder;   ///< relative to the bundle; its files are in the manifest
  bool native_code = false;
  /// Build facts for `inspect`, a JSON object: versions, options, build time, deviation, speed-ups.
  std::string info_json = "{}";
};

struct StoredGraph {
  GraphSpec spec;
  Plan plan;
  std::vector<StoredEngine> engines;
  std::vector<std::int32_t> output_alias;  ///< as RoutedGraph's; empty: none of the results
  std::optional<ArgumentChanges> changes;  ///< as RoutedGraph's
};

struct StoredFile {
  std::uint64_t size = 0;
  std::string sha256;  ///< hexadecimal
};

/// What `save` writes: a folder with `manifest.json` and the engines' files. No pickle.
///
/// The manifest names every file of every engine; a file that it does not name is refused within an
/// engine's folder, where an engine could pick it up unchecked, and is ignored elsewhere.
struct Bundle {
  static constexpr int kFormatVersion = 1;

  std::string module_name;
  bool strict = true;
  Signature signature;
  std::vector<StoredGraph> graphs;
  /// Of "graphtune" and the libraries that built it; "weights": sha256 of the model's.
  std::map<std::string, std::string> versions;
  std::map<std::string, std::string> hardware;  ///< see describe_hardware
  std::string info_json = "{}";                 ///< a JSON object of the writer's own
  /// By name relative to the folder; write_bundle finds them itself.
  std::map<std::string, StoredFile> files;
  std::filesystem::path folder;  ///< where it was read from
};

struct OpenOptions {
  bool verify = true;  ///< sha256 of every file before any is used; sizes are checked anyway
  /// Native code (AOTInductor packages) is loaded: by default only from bundles that were built on
  /// this machine.
  std::optional<bool> allow_native_code;
};

/// Writes `bundle` to `path`: engine folders are copied from `sources[engine folder]`. Written
/// beside `path` and renamed, so that an existing bundle is replaced whole or not at all. Throws
/// BundleError when it can't be written; ValueError when `path` exists and is neither a bundle nor
/// an empty folder, and for what a bundle can't hold.
GRAPHTUNE_API void write_bundle(const Bundle& bundle,
                                const std::map<std::string, std::filesystem::path>& sources,
                                const std::filesystem::path& path);

/// Reads and checks a manifest and every file it names. Throws BundleError saying which file and
/// what: a manifest that its own digest does not fit; a file that is missing, of other size, other
/// digest, name that leaves the folder, unknown format version, malformed JSON with its path.
[[nodiscard]] GRAPHTUNE_API Bundle read_bundle(const std::filesystem::path& path,
                                               const OpenOptions& options = {});

/// Writes a bundle that was read to another place (or its own), with the engines that it has, also
/// those that don't fit this machine. What was changed since it was read is refused. Throws as
/// write_bundle does.
GRAPHTUNE_API void copy_bundle(const Bundle& bundle, const std::filesystem::path& path);

/// The manifest's text alone (fuzzed): throws BundleError. `verify`: its "sha256" must be that of
/// the rest, which finds damage; whoever changes a manifest on purpose can write a new one.
[[nodiscard]] GRAPHTUNE_API Bundle parse_manifest(std::string_view text, bool verify = false);
/// A graph without a contract gets the learned one. Throws ValueError for what a manifest can't
/// hold.
[[nodiscard]] GRAPHTUNE_API std::string write_manifest(const Bundle& bundle);
/// A manifest that was edited, with the "sha256" of what it now says. Throws ValueError for what is
/// no JSON object.
[[nodiscard]] GRAPHTUNE_API std::string seal_manifest(std::string_view text);

/// Facts on this machine as bundles store them: "cpu" (its model), "architecture",
/// "instruction_set" (extensions, separated by spaces), "machine_id" (a digest; empty where the
/// machine can't be told from others).
[[nodiscard]] GRAPHTUNE_API std::map<std::string, std::string> describe_hardware();

/// Why native code built on `built_on` can't run here ("it needs avx512f"); empty when it can.
[[nodiscard]] GRAPHTUNE_API std::string native_code_obstacle(
    const std::map<std::string, std::string>& built_on);

}  // namespace graphtune
