#pragma once

#include <string>

// The library is opened while the program runs (runtime.cpp), so nothing may call it before.
#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

namespace graphtune {

/// ONNX Runtime, opened once a process from, in turn: the file named by
/// GRAPHTUNE_ONNXRUNTIME_LIBRARY, the onnxruntime package beside this one, where the build found
/// it, and the system's libonnxruntime.so.1. Not linked, because the wheel's library has a file
/// name that no loader would look for.
struct OnnxRuntime {
  std::string version;             ///< empty when it is not there
  std::string unavailable_reason;  ///< empty when it can be used

  /// Thread safe; the first call opens the library.
  [[nodiscard]] static const OnnxRuntime& instance();
  /// One a process, never destroyed. Throws EngineError when the runtime can't be used.
  [[nodiscard]] static Ort::Env& environment();
};

}  // namespace graphtune
