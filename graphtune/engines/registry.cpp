#include "graphtune/engines/registry.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/library_folder.h"

namespace graphtune {
namespace {

namespace fs = std::filesystem;

/// Engine libraries that this project builds; others are found by name all the same.
constexpr std::array<std::string_view, 4> kKnownBackends = {"aoti", "onnxruntime", "openvino",
                                                            "torchscript"};

/// Backends by name. Those that were replaced are kept: others may hold a reference.
class Registry {
 public:
  static Registry& instance() {
    // Never destroyed: engines may outlive static destruction.
    static Registry& registry = *new Registry();
    return registry;
  }

  Backend* find(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto found = backends_.find(name);
    return found == backends_.end() ? nullptr : found->second;
  }

  void add(std::shared_ptr<Backend> backend) {
    const std::lock_guard lock(mutex_);
    backends_[std::string(backend->name())] = backend.get();
    owned_.push_back(std::move(backend));
  }

  /// `backend` is owned by its library, which is never closed.
  void add(Backend* backend) {
    const std::lock_guard lock(mutex_);
    backends_.emplace(std::string(backend->name()), backend);
  }

  std::vector<std::string> names() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, backend] : backends_) {
      names.push_back(name);
    }
    return names;
  }

  /// Held while a library is opened, which can take seconds; recursive, because a library's static
  /// initialisers may register.
  std::recursive_mutex& loading() { return loading_; }

 private:
  std::mutex mutex_;
  std::recursive_mutex loading_;
  std::map<std::string, Backend*, std::less<>> backends_;
  std::vector<std::shared_ptr<Backend>> owned_;
};

std::vector<fs::path> engine_folders() {
  std::vector<fs::path> folders;
  if (const char* variable = std::getenv("GRAPHTUNE_ENGINE_PATH")) {
    std::string_view rest = variable;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) {
        folders.emplace_back(rest.substr(0, end));
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  const fs::path ours = library_folder(reinterpret_cast<const void*>(&engine_folders));
  if (!ours.empty()) {
    folders.push_back(ours);
    folders.push_back(ours / "graphtune");
  }
  return folders;
}

std::string loader_words() {
  const char* words = dlerror();
  return words == nullptr ? "no reason given" : words;
}

/// Opens one library. Throws EngineError.
Backend& open_library(const fs::path& file, std::string_view name) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw EngineError(fmt::format("it would not open: {}", loader_words()));
  }
  // Never closed: its engines' code must stay, and the runtimes behind them don't survive being
  // unloaded.
  const auto abi =
      reinterpret_cast<graphtune_engine_abi_fn>(dlsym(library, "graphtune_engine_abi"));
  const auto backend_of =
      reinterpret_cast<graphtune_backend_fn>(dlsym(library, "graphtune_backend"));
  if (abi == nullptr || backend_of == nullptr) {
    throw EngineError(
        "it is no engine library: it lacks graphtune_engine_abi or graphtune_backend");
  }
  if (abi() != kEngineAbi) {
    throw EngineError(fmt::format(
        "it was built for engine ABI {}, this graphtune has {}: build both from one version", abi(),
        kEngineAbi));
  }
  Backend* backend = backend_of();
  if (backend == nullptr || backend->name() != name) {
    throw EngineError(
        fmt::format("it holds backend '{}'", backend == nullptr ? "none" : backend->name()));
  }
  return *backend;
}

}  // namespace

bool is_backend_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Backend& find_backend(std::string_view name) {
  Registry& registry = Registry::instance();
  if (Backend* backend = registry.find(name)) {
    return *backend;
  }
  if (!is_backend_name(name)) {
    throw EngineError(fmt::format(
        "'{}' is no name of a backend: lower-case letters, digits and '_' are allowed, 64 at most",
        name.substr(0, 80)));
  }
  const std::lock_guard loading(registry.loading());
  if (Backend* backend = registry.find(name)) {
    return *backend;
  }
  const std::string file_name = fmt::format("libgraphtune_engine_{}.so", name);
  std::string tried;
  std::set<fs::path> seen;
  for (const fs::path& folder : engine_folders()) {
    if (!seen.insert(folder).second) {
      continue;
    }
    const fs::path file = folder / file_name;
    std::error_code error;
    if (!fs::exists(file, error)) {
      tried += fmt::format("\n  {}: not there", file.string());
      continue;
    }
    try {
      Backend& backend = open_library(file, name);
      registry.add(&backend);
      return *registry.find(name);
    } catch (const EngineError& failure) {
      tried += fmt::format("\n  {}: {}", file.string(), failure.what());
    }
  }
  throw EngineError(
      fmt::format("backend '{}' is not available. Looked for its library in:{}\n"
                  "Build or install it, or name its folder in the environment variable "
                  "GRAPHTUNE_ENGINE_PATH. An "
                  "engine of one's own has to be registered first (register_backend; in Python "
                  "graphtune.register_engine).",
                  name, tried));
}

std::shared_ptr<Engine> load_engine(Backend& backend, const std::filesystem::path& folder,
                                    const EngineOptions& options) {
  std::shared_ptr<Engine> engine;
  try {
    engine = backend.load(folder, options);
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    throw EngineError(
        fmt::format("backend '{}': it threw what is no std::exception", backend.name()));
  }
  if (engine == nullptr) {
    throw EngineError(fmt::format("backend '{}': it gave no engine", backend.name()));
  }
  return engine;
}

void register_backend(std::shared_ptr<Backend> backend) {
  if (backend == nullptr) {
    throw ValueError("register_backend: the backend is null");
  }
  if (!is_backend_name(backend->name())) {
    throw ValueError(
        fmt::format("register_backend: '{}' is no usable name: lower-case letters, digits and '_' "
                    "are allowed, 64 at most",
                    backend->name().substr(0, 80)));
  }
  Registry::instance().add(std::move(backend));
}

BackendInfo backend_info(std::string_view name, const std::map<std::string, std::string>& options) {
  BackendInfo info;
  info.name = name;
  try {
    const Backend& backend = find_backend(name);
    info.version = backend.version();
    info.loads_native_code = backend.loads_native_code();
    info.unavailable_reason =
        options.empty() ? backend.unavailable_reason() : backend.unavailable_reason_for(options);
  } catch (const std::exception& failure) {
    info.unavailable_reason = failure.what();
  }
  return info;
}

std::vector<BackendInfo> list_backends() {
  std::vector<std::string> names = Registry::instance().names();
  names.insert(names.end(), kKnownBackends.begin(), kKnownBackends.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());

  std::vector<BackendInfo> infos;
  infos.reserve(names.size());
  for (const std::string& name : names) {
    infos.push_back(backend_info(name));
  }
  return infos;
}

}  // namespace graphtune
