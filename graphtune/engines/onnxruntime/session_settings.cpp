#include "graphtune/engines/onnxruntime/session_settings.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graphtune/engines/cuda_device.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

struct KnownProvider {
  std::string_view name;
  std::string_view runtime_name;
};
constexpr std::array<KnownProvider, 2> kProviders = {{
    {"CUDA", "CUDAExecutionProvider"},
    {"TensorRT", "TensorrtExecutionProvider"},
}};

constexpr std::array<std::pair<std::string_view, GraphOptimizationLevel>, 4> kLevels = {{
    {"none", ORT_DISABLE_ALL},
    {"basic", ORT_ENABLE_BASIC},
    {"extended", ORT_ENABLE_EXTENDED},
    {"all", ORT_ENABLE_ALL},
}};

const KnownProvider* find_provider(std::string_view name) {
  const auto* found = std::find_if(kProviders.begin(), kProviders.end(),
                                   [&](const KnownProvider& known) { return known.name == name; });
  return found == kProviders.end() ? nullptr : found;
}

GraphOptimizationLevel parse_level(const std::string& text) {
  for (const auto& [name, level] : kLevels) {
    if (name == text) {
      return level;
    }
  }
  throw EngineError(fmt::format(
      "engine 'onnxruntime': graph_optimization '{}' is none of none, basic, extended, all", text));
}

std::vector<SessionSettings::Provider> parse_providers(std::string_view text) {
  std::vector<SessionSettings::Provider> providers;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view name = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (name == "CPU") {
      continue;
    }
    if (find_provider(name) == nullptr) {
      throw EngineError(
          fmt::format("engine 'onnxruntime': provider '{}' is none of CPU, CUDA, TensorRT", name));
    }
    providers.push_back({std::string(name), {}});
  }
  return providers;
}

/// Names and values as the C API takes them.
struct Texts {
  explicit Texts(const std::map<std::string, std::string>& options) {
    for (const auto& [name, value] : options) {
      names.push_back(name.c_str());
      values.push_back(value.c_str());
    }
  }
  std::vector<const char*> names;
  std::vector<const char*> values;
};

void append_cuda(Ort::SessionOptions& session, const Texts& texts) {
  const OrtApi& api = Ort::GetApi();
  OrtCUDAProviderOptionsV2* made = nullptr;
  Ort::ThrowOnError(api.CreateCUDAProviderOptions(&made));
  const std::unique_ptr<OrtCUDAProviderOptionsV2, void (*)(OrtCUDAProviderOptionsV2*)> options(
      made, api.ReleaseCUDAProviderOptions);
  Ort::ThrowOnError(api.UpdateCUDAProviderOptions(made, texts.names.data(), texts.values.data(),
                                                  texts.names.size()));
  session.AppendExecutionProvider_CUDA_V2(*made);
}

void append_tensorrt(Ort::SessionOptions& session, const Texts& texts) {
  const OrtApi& api = Ort::GetApi();
  OrtTensorRTProviderOptionsV2* made = nullptr;
  Ort::ThrowOnError(api.CreateTensorRTProviderOptions(&made));
  const std::unique_ptr<OrtTensorRTProviderOptionsV2, void (*)(OrtTensorRTProviderOptionsV2*)>
      options(made, api.ReleaseTensorRTProviderOptions);
  Ort::ThrowOnError(api.UpdateTensorRTProviderOptions(made, texts.names.data(), texts.values.data(),
                                                      texts.names.size()));
  session.AppendExecutionProvider_TensorRT_V2(*made);
}

}  // namespace

SessionSettings parse_settings(const std::map<std::string, std::string>& options) {
  SessionSettings settings;
  if (const auto found = options.find("providers"); found != options.end()) {
    settings.providers = parse_providers(found->second);
  }
  for (const auto& [name, value] : options) {
    const std::string owner = name.substr(0, name.find('.'));
    if (name == "graph_optimization") {
      settings.optimization = parse_level(value);
    } else if (find_provider(owner) != nullptr && owner.size() < name.size()) {
      const auto provider = std::find_if(settings.providers.begin(), settings.providers.end(),
                                         [&](const auto& each) { return each.name == owner; });
      if (provider == settings.providers.end()) {
        throw EngineError(fmt::format(
            "engine 'onnxruntime': option {} is of a provider that is not in 'providers'", name));
      }
      provider->options[name.substr(owner.size() + 1)] = value;
    } else if (name != "providers") {
      settings.config[name] = value;
    }
  }
  return settings;
}

std::string providers_unavailable_reason(const SessionSettings& settings) {
  if (settings.providers.empty()) {
    return {};
  }
  if (std::string reason = cuda_unavailable_reason(); !reason.empty()) {
    return reason;
  }
  const std::vector<std::string> known = Ort::GetAvailableProviders();
  for (const SessionSettings::Provider& provider : settings.providers) {
    const std::string_view wanted = find_provider(provider.name)->runtime_name;
    if (std::find(known.begin(), known.end(), wanted) == known.end()) {
      return fmt::format(
          "the onnxruntime library has no {}: install the package onnxruntime-gpu, or name a "
          "library that has it in GRAPHTUNE_ONNXRUNTIME_LIBRARY",
          wanted);
    }
  }
  return {};
}

void append_providers(Ort::SessionOptions& session, const SessionSettings& settings) {
  for (const SessionSettings::Provider& provider : settings.providers) {
    const Texts texts(provider.options);
    if (provider.name == "CUDA") {
      append_cuda(session, texts);
    } else {
      append_tensorrt(session, texts);
    }
  }
}

}  // namespace graphtune
