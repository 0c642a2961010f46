#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

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
  std::string info_json = "{}";  ///< build facts for `inspect`: versions, options, build time, deviation, speed-ups
};

struct StoredGraph {
  GraphSpec spec;
  Plan plan;
  std::vector<StoredEngine> engines;
  std::vector<std::int32_t> output_alias;
};

/// What `save` writes: a folder with `manifest.json` and the engines' files. No pickle.
struct Bundle {
  static constexpr int kFormatVersion = 1;

  std::string module_name;
  bool strict = true;
  Signature signature;
  std::vector<StoredGraph> graphs;
  std::map<std::string, std::string> versions;  ///< of graphtune and the libraries that built it
  std::map<std::string, std::string> hardware;  ///< "cpu", "instruction_set", "machine_id" …
  std::filesystem::path folder;                 ///< where it was read from
};

struct OpenOptions {
  bool verify = true;  ///< sha256 of every file before any is used
  /// Native code (AOTInductor packages) is loaded: by default only from bundles that were built on this machine.
  std::optional<bool> allow_native_code;
};

/// Writes `bundle` to `path`: engine folders are copied from `sources[engine folder]`. Written beside `path` and renamed,
/// so that an existing bundle is replaced whole or not at all. Throws BundleError; ValueError when `path` exists and
/// is no bundle.
GRAPHTUNE_API void write_bundle(const Bundle& bundle, const std::map<std::string, std::filesystem::path>& sources,
                                const std::filesystem::path& path);

/// Reads and checks a manifest and every file it names. Throws BundleError saying which file and what: missing, other
/// size, other digest, name that leaves the folder, unknown format version, malformed JSON with its path.
[[nodiscard]] GRAPHTUNE_API Bundle read_bundle(const std::filesystem::path& path, const OpenOptions& options = {});

/// The manifest's text alone (fuzzed): throws BundleError.
[[nodiscard]] GRAPHTUNE_API Bundle parse_manifest(std::string_view text);

/// Facts on this machine as bundles store them.
[[nodiscard]] GRAPHTUNE_API std::map<std::string, std::string> describe_hardware();

}  // namespace graphtune
