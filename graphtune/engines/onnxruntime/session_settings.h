#pragma once

#include <map>
#include <string>
#include <vector>

#include "graphtune/engines/onnxruntime/runtime.h"

namespace graphtune {

/// What engine.json's "options" say of a session:
///   graph_optimization  "none", "basic", "extended" or "all" (default)
///   providers           execution providers in the order in which they are asked for each node,
///                       separated by commas: "TensorRT,CUDA,CPU"; the CPU is always the last
///   CUDA.NAME, TensorRT.NAME   option NAME of that provider
/// and anything else is an entry of the session's configuration.
struct SessionSettings {
  struct Provider {
    std::string name;
    std::map<std::string, std::string> options;
  };
  GraphOptimizationLevel optimization = ORT_ENABLE_ALL;
  std::vector<Provider> providers;  ///< but the CPU
  std::map<std::string, std::string> config;
};

/// Throws EngineError that names what it doesn't know.
[[nodiscard]] SessionSettings parse_settings(const std::map<std::string, std::string>& options);

/// Why a provider can't be used here: no device, or a runtime without it. Empty when all can. The
/// runtime must be open.
[[nodiscard]] std::string providers_unavailable_reason(const SessionSettings& settings);

/// Throws Ort::Exception for what a provider refuses.
void append_providers(Ort::SessionOptions& session, const SessionSettings& settings);

}  // namespace graphtune
