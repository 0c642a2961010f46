#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "graphtune/module.h"

namespace graphtune::tools {

struct InspectOptions {
  std::filesystem::path bundle;
  std::string module;  ///< of a folder of several; empty: they are listed
  bool json = false;
};
/// Prints what is in a bundle; loads no engine.
void inspect(const InspectOptions& options);

struct RunOptions {
  std::filesystem::path bundle;
  std::string module;  ///< of a folder of several
  std::filesystem::path input;
  std::filesystem::path output;  ///< empty: results are not written
  std::filesystem::path report;  ///< empty: no report
  std::string graph;             ///< empty: the first that the names fit
  int repeat = 1;
  LoadOptions load;
};
/// Runs the calls of a safetensors file.
void run(const RunOptions& options);

struct BenchOptions {
  std::filesystem::path bundle;
  std::string module;           ///< of a folder of several
  std::filesystem::path input;  ///< empty: calls are made up
  double seconds = 1.0;         ///< for each call
  LoadOptions load;
};
/// Measures calls.
void bench(const BenchOptions& options);

/// The bundle at `path`, which is `path` itself or, where that holds several modules, the bundle of
/// the one named `module`. Throws ValueError for a name that is not there, and for none where there
/// are several.
[[nodiscard]] std::filesystem::path choose_bundle(const std::filesystem::path& path,
                                                  const std::string& module);

/// Lists the modules of a folder of several.
void list_modules(const std::filesystem::path& path, bool json);

/// "1.5 MB"
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
/// Of all its files but the manifest.
[[nodiscard]] std::uint64_t bundle_bytes(const Bundle& bundle);

/// Loads a bundle for use; tells of engines that were left out on stderr.
[[nodiscard]] Module load_module(const std::filesystem::path& bundle, const LoadOptions& options);

/// How calls are named in safetensors files, for --help.
[[nodiscard]] std::string naming_help();

}  // namespace graphtune::tools
