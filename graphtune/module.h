#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graphtune/bundle.h"
#include "graphtune/engines/engine.h"
#include "graphtune/export.h"
#include "graphtune/router.h"
#include "graphtune/value.h"

namespace graphtune {

/// When the engines of a bundle are loaded.
enum class EngineLoading : std::uint8_t {
  InTurn,       ///< while the bundle is, one after the other: least memory at a time
  InParallel,   ///< while the bundle is, as many at a time as there are cores
  OnFirstCall,  ///< each by the first call that it gets: what can't be loaded fails that call
};

struct LoadOptions : OpenOptions {
  EngineOptions engine;
  EngineLoading loading = EngineLoading::InTurn;
  /// The caller has the model itself: what no engine serves runs eagerly, so that an engine that
  /// can't be loaded is never an error.
  bool has_model = false;
};

/// Builds the router of a bundle: loads each engine that its plans name. An engine that does not
/// fit this machine, or is native code that may not be loaded, is left out when other engines of
/// the plan serve all its regions (`problems` says so), else its error is thrown: EngineError, or
/// BundleError for native code that is not allowed.
[[nodiscard]] GRAPHTUNE_API std::shared_ptr<Router> make_router(
    const Bundle& bundle, const LoadOptions& options, std::vector<std::string>* problems = nullptr);

/// A tuned module in a process without Python. Copies share the engines. Thread safe.
///
///     auto module = graphtune::Module::load("minilm.bundle");
///     graphtune::Value result = module({}, {{"input_ids", ids}, {"attention_mask", mask}});
///     const graphtune::Tensor& hidden = result["last_hidden_state"].tensor();
class GRAPHTUNE_API Module {
 public:
  /// Throws BundleError, EngineError.
  static Module load(const std::filesystem::path& path, const LoadOptions& options = {});

  /// Runs a call. Throws MissError (naming tensor, axis, size and range) for a call outside the
  /// bundle, TypeError for arguments that do not fit the signature, EngineError when an engine
  /// fails.
  [[nodiscard]] Value operator()(std::vector<Value> positional,
                                 std::vector<std::pair<std::string, Value>> named = {}) const;
  [[nodiscard]] Value call(const Arguments& arguments) const;

  /// What call() would do: the graph and the name of the engine that would serve it.
  struct Served {
    std::string graph;
    std::string engine;
  };
  /// Throws MissError and TypeError as call() does. Counts nothing.
  [[nodiscard]] Served explain(const Arguments& arguments) const;

  [[nodiscard]] const Bundle& bundle() const noexcept;
  [[nodiscard]] const Router& router() const noexcept;
  /// Engines that were left out when it was loaded, and why.
  [[nodiscard]] const std::vector<std::string>& problems() const noexcept;
  [[nodiscard]] CallStats stats() const;

 private:
  struct State;
  explicit Module(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

/// Runs `engine` on the tensors of a routed call, which stand in canonical order and may have any
/// strides: it gets contiguous ones. `outputs` is filled with the result's tensors in canonical
/// order, those that are inputs being the very input. Throws EngineError naming graph and engine,
/// whatever the engine throws.
GRAPHTUNE_API void run_engine(Engine& engine, const RoutedGraph& graph,
                              std::span<const Tensor> canonical_inputs,
                              std::vector<Tensor>& outputs);

}  // namespace graphtune
