#include "graphtune/engines/onnxruntime/runtime.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

#include "graphtune/error.h"
#include "graphtune/library_folder.h"

namespace graphtune {
namespace {

namespace fs = std::filesystem;

// The wheel's library is libonnxruntime.so.VERSION.
void add_libraries_of(const fs::path& folder, std::vector<std::string>& places) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("libonnxruntime.so")) {
      places.push_back(entry.path().string());
    }
  }
}

std::vector<std::string> places_to_look() {
  if (const char* chosen = std::getenv("GRAPHTUNE_ONNXRUNTIME_LIBRARY")) {
    return {chosen};
  }
  std::vector<std::string> places;
  const fs::path ours = library_folder(reinterpret_cast<const void*>(&places_to_look));
  if (!ours.empty()) {
    add_libraries_of(ours.parent_path() / "onnxruntime" / "capi", places);
  }
#ifdef GRAPHTUNE_ONNXRUNTIME_FOLDER
  add_libraries_of(GRAPHTUNE_ONNXRUNTIME_FOLDER, places);
#endif
  places.emplace_back("libonnxruntime.so.1");
  return places;
}

// Empty when `place` holds a runtime of our API, which is then in use for good.
std::string open_runtime(const std::string& place, std::string& version) {
  void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* words = dlerror();
    return words == nullptr ? place + " would not open" : words;
  }
  const auto base_of = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  if (base_of == nullptr) {
    return place + " is no ONNX Runtime: it lacks OrtGetApiBase";
  }
  const OrtApiBase* base = base_of();
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (api == nullptr) {
    return fmt::format("{} is ONNX Runtime {}, older than 1.{}, whose API this engine uses", place,
                       base->GetVersionString(), ORT_API_VERSION);
  }
  Ort::InitApi(api);
  version = base->GetVersionString();
  return {};
}

OnnxRuntime find_runtime() {
  OnnxRuntime runtime;
  std::string reasons;
  for (const std::string& place : places_to_look()) {
    const std::string reason = open_runtime(place, runtime.version);
    if (reason.empty()) {
      return runtime;
    }
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  runtime.unavailable_reason = fmt::format(
      "ONNX Runtime was not found ({}): install the package onnxruntime, or name the "
      "library in GRAPHTUNE_ONNXRUNTIME_LIBRARY",
      reasons);
  return runtime;
}

}  // namespace

const OnnxRuntime& OnnxRuntime::instance() {
  static const OnnxRuntime runtime = find_runtime();
  return runtime;
}

Ort::Env& OnnxRuntime::environment() {
  const OnnxRuntime& runtime = instance();
  if (!runtime.unavailable_reason.empty()) {
    throw EngineError(runtime.unavailable_reason);
  }
  static auto* const environment = new Ort::Env(ORT_LOGGING_LEVEL_ERROR, "graphtune");
  return *environment;
}

}  // namespace graphtune
