#include "graphtune/engines/torch/torch_engine_base.h"

#include <string>
#include <utility>

#include <c10/core/InferenceMode.h>

#include "graphtune/engines/cuda_device.h"
#include "graphtune/engines/torch/openmp_threads.h"
#include "graphtune/engines/torch/tensor_bridge.h"
#include "graphtune/engines/torch/thread_count.h"
#include "graphtune/engines/torch/torch_errors.h"
#include "graphtune/engines/torch/torch_results.h"
#include "graphtune/error.h"

namespace graphtune {

TorchEngine::TorchEngine(EngineFile file, DeviceType device, const EngineOptions& options)
    : file_(std::move(file)), device_(device), threads_(file_.thread_count(options.threads)) {}

void TorchEngine::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  outputs.clear();
  file_.check_inputs(inputs, device_);
  try {
    const c10::InferenceMode inference_mode;
    std::vector<at::Tensor> taken;
    taken.reserve(file_.inputs.size());
    for (const EngineFile::Input& input : file_.inputs) {
      taken.push_back(borrow_as_torch(inputs[input.index]));
    }
    std::vector<at::Tensor> results;
    {
      const ThreadCount thread_count(threads_);
      results = compute(std::move(taken));
    }
    leave_openmp_spinning();
    hand_out(file_, results, outputs);
  } catch (const Error&) {
    outputs.clear();
    throw;
  } catch (...) {
    outputs.clear();
    throw engine_error(file_.backend, current_reason());
  }
}

std::shared_ptr<Engine> load_torch_engine(
    const std::filesystem::path& folder, std::string_view backend,
    const std::function<std::shared_ptr<Engine>(EngineFile)>& make) {
  EngineFile file = read_engine_file(folder, backend);
  const std::string path = file.path().string();
  try {
    return make(std::move(file));
  } catch (const Error&) {
    throw;
  } catch (...) {
    throw engine_error(backend, "can't load ", path, ": ", current_reason());
  }
}

void require_device(const EngineFile& file, DeviceType device) {
  if (device == DeviceType::Cuda && !cuda_unavailable_reason().empty()) {
    throw engine_error(file.backend, "can't load ", file.path().string(), ": ",
                       cuda_unavailable_reason());
  }
}

}  // namespace graphtune
