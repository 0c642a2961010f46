#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "graphtune/bundle.h"
#include "graphtune/router.h"
#include "graphtune/value.h"

namespace graphtune {

struct LoadOptions : OpenOptions {
  EngineOptions engine;
};

/// Builds the router of a bundle: loads each engine that its plans name. An engine that does not fit this machine is skipped
/// when the plan has another for its region (see `problems`), else its error is thrown.
[[nodiscard]] GRAPHTUNE_API std::shared_ptr<Router> make_router(const Bundle& bundle, const LoadOptions& options,
                                                                std::vector<std::string>* problems = nullptr);

/// A tuned module in a process without Python. Copies share the engines. Thread safe.
///
///     auto module = graphtune::Module::load("minilm.bundle");
///     graphtune::Value result = module({}, {{"input_ids", ids}, {"attention_mask", mask}});
///     const graphtune::Tensor& hidden = result["last_hidden_state"].tensor();
class GRAPHTUNE_API Module {
 public:
  /// Throws BundleError, EngineError.
  static Module load(const std::filesystem::path& path, const LoadOptions& options = {});

  /// Runs a call. Throws MissError (naming tensor, axis, size and range) for a call outside the bundle, TypeError
  /// for arguments that do not fit the signature, EngineError when an engine fails.
  [[nodiscard]] Value operator()(std::vector<Value> positional,
                                 std::vector<std::pair<std::string, Value>> named = {}) const;
  [[nodiscard]] Value call(const Arguments& arguments) const;

  [[nodiscard]] const Bundle& bundle() const noexcept;
  [[nodiscard]] CallStats stats() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// Runs `engine` on the tensors of a routed call: gathers them in canonical order (contiguous), puts aliased inputs in their
/// places. `arguments` gives the tensor for a caller-order index.
GRAPHTUNE_API void run_engine(Engine& engine, const RoutedGraph& graph, std::span<const Tensor> canonical_inputs,
                              std::vector<Tensor>& outputs);

}  // namespace graphtune
