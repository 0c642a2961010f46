#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graphtune/engines/engine.h"

namespace graphtune {

/// Finds a backend by name ("aoti", "openvino", …): one registered with register_backend, else the
/// library `libgraphtune_engine_<name>.so`, opened on first use from, in turn,
/// GRAPHTUNE_ENGINE_PATH (folders separated by ':'), the folder of libgraphtune and its sub-folder
/// `graphtune/`. Throws EngineError saying where it looked and, for a library that would not open,
/// the loader's own words. Thread safe.
[[nodiscard]] GRAPHTUNE_API Backend& find_backend(std::string_view name);

/// Has a backend load what a build wrote to `folder`. Throws what Backend::load does, and
/// EngineError for what is no std::exception, which a runtime may throw, and where the backend
/// gives nothing.
[[nodiscard]] GRAPHTUNE_API std::shared_ptr<Engine> load_engine(Backend& backend,
                                                                const std::filesystem::path& folder,
                                                                const EngineOptions& options);

/// Joins a backend of the user's own; replaces one of the same name, which lives on for those who
/// use it. Throws ValueError for a name that find_backend would refuse. Thread safe.
GRAPHTUNE_API void register_backend(std::shared_ptr<Backend> backend);

/// Lower-case letters, digits and '_', 64 at most. The name becomes part of a file name, and may
/// come from a bundle: it must not lead anywhere else.
[[nodiscard]] GRAPHTUNE_API bool is_backend_name(std::string_view name) noexcept;

struct BackendInfo {
  std::string name;
  std::string version;             ///< empty when absent
  std::string unavailable_reason;  ///< empty when usable
  bool loads_native_code = true;   ///< see Backend
};
/// One backend, tried, for engines with these options: why it can't be used stands in the result.
[[nodiscard]] GRAPHTUNE_API BackendInfo
backend_info(std::string_view name, const std::map<std::string, std::string>& options = {});
/// The backends of this build and those registered, each tried.
[[nodiscard]] GRAPHTUNE_API std::vector<BackendInfo> list_backends();

}  // namespace graphtune
