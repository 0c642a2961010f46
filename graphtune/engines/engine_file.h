#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graphtune/dtype.h"
#include "graphtune/export.h"
#include "graphtune/tensor.h"

namespace graphtune {

/// What a build says of its engine in `engine.json`, beside the engine's own files. An engine runs
/// native code that takes its inputs on trust, so what reaches it is held against this first.
struct GRAPHTUNE_API EngineFile {
  static constexpr std::string_view kName = "engine.json";
  static constexpr int kFormat = 1;
  static constexpr std::int64_t kAnySize = -1;

  /// In the engine's own order.
  struct Input {
    std::size_t index =
        0;  ///< which of the call's tensors (canonical order); unused ones may be left out
    DType dtype = DType::Float32;
    std::vector<std::int64_t>
        sizes;  ///< kAnySize where the axis varies: the contract knows the range
  };
  /// In the graph's order.
  struct Output {
    std::size_t result =
        0;  ///< which of the engine's results; outputs that are the same tensor share one
    DType dtype = DType::Float32;
    std::size_t rank = 0;
  };

  std::string backend;
  std::filesystem::path folder;
  std::string file;  ///< name of the engine's main file, in `folder`
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::map<std::string, std::string>
      options;  ///< for the engine's runtime; what is no string as JSON writes it
  std::map<std::string, std::string> versions;  ///< of the libraries that built it
  DeviceType device_type = DeviceType::Cpu;     ///< where it takes its inputs: "built_for"
  int threads = 0;               ///< that it was built and measured with; 0: the runtime's choice
  std::size_t tensor_count = 0;  ///< a call has at least so many tensors
  std::size_t result_count = 0;  ///< the engine gives at least so many results

  [[nodiscard]] std::filesystem::path path() const { return folder / file; }

  /// Threads to run with: those that the loader asks for, else those of the build.
  [[nodiscard]] int thread_count(int asked) const noexcept { return asked > 0 ? asked : threads; }

  /// Count, dtype, rank, fixed sizes and contiguity of the inputs that the engine takes, all on a
  /// device of kind `device`. Throws EngineError.
  void check_inputs(std::span<const Tensor> tensors, DeviceType device) const;
  /// Throws EngineError when output `index` is not what the build promised.
  void check_output(std::size_t index, DType dtype, std::size_t rank) const;
};

/// Reads and checks `folder`/engine.json, and that the file it names is there. Throws BundleError
/// that says which field is wrong and how, also when the engine is of another backend than
/// `backend`.
[[nodiscard]] GRAPHTUNE_API EngineFile read_engine_file(const std::filesystem::path& folder,
                                                        std::string_view backend);

/// The text alone (fuzzed); looks at no file. Throws BundleError.
[[nodiscard]] GRAPHTUNE_API EngineFile parse_engine_file(std::string_view text);

}  // namespace graphtune
