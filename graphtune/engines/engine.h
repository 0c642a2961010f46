#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graphtune/export.h"
#include "graphtune/tensor.h"

namespace graphtune {

/// A built candidate, ready to run.
///
/// run() is thread safe: an engine whose runtime serialises keeps a pool of requests. It is given
/// tensors that the contract has checked (dtype, rank, sizes, index values), contiguous, on the
/// engine's device. It never writes an input, nor keeps one (but see keeps_inputs()). Outputs are
/// owned by the caller and stay valid and unchanged after later calls and after the engine is gone.
/// Throws EngineError.
class GRAPHTUNE_API Engine {
 public:
  virtual ~Engine();
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] virtual std::string_view backend() const noexcept = 0;
  /// `inputs`: all tensors of the call in canonical order. `outputs` is cleared and filled in the
  /// order of the result's tensors (canonical).
  virtual void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) = 0;

  /// What the engine runs may hold on to its inputs, or return one: callers give tensors that own
  /// their memory. To others they may lend it for the time of the call.
  [[nodiscard]] virtual bool keeps_inputs() const noexcept { return false; }
};

struct EngineOptions {
  /// Intra-op threads; 0: as many as the engine was built for (engine.json's "threads"), which is
  /// the runtime's choice unless the build was told otherwise.
  int threads = 0;
};

/// A technology that can load engines. Registered by the engine's shared library when it is opened.
/// Thread safe.
class GRAPHTUNE_API Backend {
 public:
  virtual ~Backend();
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Runtime and version, e.g. "openvino 2026.4.1".
  [[nodiscard]] virtual std::string version() const = 0;
  /// Empty when it can be used here, else why not ("no CUDA device").
  [[nodiscard]] virtual std::string unavailable_reason() const { return {}; }
  /// The same for engines with these options (engine.json's "options"), which may need more: a
  /// device, a part of the runtime. Throws EngineError for options that the backend doesn't know.
  [[nodiscard]] virtual std::string unavailable_reason_for(
      const std::map<std::string, std::string>& /*options*/) const {
    return unavailable_reason();
  }
  /// Whether what load() loads is code, which can do anything that the process can: machine code,
  /// or a program for an interpreter that keeps it from nothing. It is for the backend to say: a
  /// bundle's own word can't be relied on.
  [[nodiscard]] virtual bool loads_native_code() const noexcept { return true; }
  /// Whether what load() loads runs on every processor, not only on those with the instructions of
  /// the one where it was built.
  [[nodiscard]] virtual bool is_portable() const noexcept { return !loads_native_code(); }
  /// Loads what a build wrote to `folder` (its engine.json names the files). Throws EngineError /
  /// BundleError.
  [[nodiscard]] virtual std::shared_ptr<Engine> load(const std::filesystem::path& folder,
                                                     const EngineOptions& options) = 0;
};

}  // namespace graphtune

/// What an engine library exports with C linkage: returns its Backend (owned by the library, lives
/// as long as the process). The ABI number must be kEngineAbi of the core that opens it.
extern "C" {
using graphtune_backend_fn = graphtune::Backend* (*)();
using graphtune_engine_abi_fn = int (*)();
}

namespace graphtune {
inline constexpr int kEngineAbi = 3;
}

#define GRAPHTUNE_ENGINE_MODULE(BackendClass)                                                 \
  extern "C" __attribute__((visibility("default"))) int graphtune_engine_abi() {              \
    return graphtune::kEngineAbi;                                                             \
  }                                                                                           \
  extern "C" __attribute__((visibility("default"))) graphtune::Backend* graphtune_backend() { \
    static BackendClass backend;                                                              \
    return &backend;                                                                          \
  }
