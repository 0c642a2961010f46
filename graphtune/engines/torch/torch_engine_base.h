#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/Tensor.h>

#include "graphtune/engines/engine.h"
#include "graphtune/engines/engine_file.h"
#include "graphtune/tensor.h"

namespace graphtune {

/// What engines of torch's runtimes share: inputs are checked and borrowed, results checked and
/// handed out, and whatever is thrown becomes an EngineError.
class TorchEngine : public Engine {
 public:
  TorchEngine(EngineFile file, DeviceType device, const EngineOptions& options);

  [[nodiscard]] std::string_view backend() const noexcept final { return file_.backend; }
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) final;

 protected:
  /// The runtime's results for inputs in the engine's order; called in inference mode, with the
  /// engine's number of threads. What else holds a result when it returns makes that one be copied.
  [[nodiscard]] virtual std::vector<at::Tensor> compute(std::vector<at::Tensor> inputs) = 0;
  [[nodiscard]] const EngineFile& file() const noexcept { return file_; }

 private:
  EngineFile file_;
  DeviceType device_;
  int threads_;
};

/// The engine that `make` makes of what a build wrote to `folder`. Throws BundleError for a wrong
/// description; whatever `make` throws becomes an EngineError that names the file.
[[nodiscard]] std::shared_ptr<Engine> load_torch_engine(
    const std::filesystem::path& folder, std::string_view backend,
    const std::function<std::shared_ptr<Engine>(EngineFile)>& make);

/// Throws EngineError, naming the file, where this process can't compute on the device.
void require_device(const EngineFile& file, DeviceType device);

}  // namespace graphtune
