#include <string>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/headeronly/version.h>

#include "graphtune/engines/cuda_device.h"
#include "graphtune/engines/engine.h"
#include "graphtune/engines/engine_file.h"
#include "graphtune/engines/torch/tensor_bridge.h"
#include "graphtune/engines/torch/thread_count.h"
#include "graphtune/engines/torch/torch_errors.h"
#include "graphtune/engines/torch/torch_results.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

constexpr std::string_view kName = "torchscript";

bool optimizes(const EngineFile& file) {
  for (const auto& [name, value] : file.options) {
    if (name != "optimize" || (value != "true" && value != "false")) {
      throw engine_error(kName, file.path().string(), ": no option is ", name, " = ", value);
    }
  }
  return file.options.count("optimize") == 0 || file.options.at("optimize") == "true";
}

class TorchScriptEngine final : public Engine {
 public:
  TorchScriptEngine(EngineFile file, const EngineOptions& options)
      : file_(std::move(file)),
        optimize_(optimizes(file_)),
        threads_(file_.thread_count(options.threads)),
        module_(torch::jit::load(file_.path().string(),
                                 c10::Device(static_cast<c10::DeviceType>(file_.device_type)))),
        forward_(module_.get_method("forward")) {
    const std::size_t takes = forward_.function().getSchema().arguments().size() - 1;  // but self
    if (takes != file_.inputs.size()) {
      throw engine_error(kName, file_.path().string(), " takes ", takes, " inputs, its ",
                         EngineFile::kName, " says ", file_.inputs.size());
    }
  }

  [[nodiscard]] std::string_view backend() const noexcept override { return kName; }

  // A method may be run by several threads at once: each run has its own interpreter, and the
  // executor compiles under a lock.
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) override {
    outputs.clear();
    file_.check_inputs(inputs, file_.device_type);
    try {
      run_checked(inputs, outputs);
    } catch (const Error&) {
      outputs.clear();
      throw;
    } catch (...) {
      outputs.clear();
      throw engine_error(kName, current_reason());
    }
  }

 private:
  void run_checked(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) const {
    const c10::InferenceMode inference_mode;
    const torch::jit::GraphOptimizerEnabledGuard optimizer(optimize_);
    std::vector<c10::IValue> stack;
    stack.reserve(file_.inputs.size() + 1);
    stack.emplace_back(module_._ivalue());
    for (const EngineFile::Input& input : file_.inputs) {
      stack.emplace_back(borrow_as_torch(inputs[input.index]));
    }
    {
      const ThreadCount thread_count(threads_);
      forward_.function().run(stack);
    }
    std::vector<at::Tensor> results = take_results(std::move(stack));
    hand_out(file_, results, outputs);
  }

  // Nothing else holds the results afterwards, or they would be copied.
  std::vector<at::Tensor> take_results(std::vector<c10::IValue> stack) const {
    if (stack.size() != 1 || !stack[0].isTuple()) {
      throw engine_error(kName, "gave no tuple of tensors");
    }
    const auto tuple = std::move(stack[0]).toTuple();
    std::vector<at::Tensor> results;
    for (const c10::IValue& element : tuple->elements()) {
      if (!element.isTensor()) {
        throw engine_error(kName, "result ", results.size(), " is no tensor");
      }
      results.push_back(element.toTensor());
    }
    return results;
  }

  EngineFile file_;
  bool optimize_;
  int threads_;
  torch::jit::Module module_;
  torch::jit::Method forward_;
};

class TorchScriptBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return kName; }
  [[nodiscard]] std::string version() const override { return c10::str("torch ", TORCH_VERSION); }

  // No machine code, but a program all the same: loading one runs what it says of itself
  // (__setstate__), and its operators can write files and, through as_strided, reach beyond a
  // tensor's memory.
  [[nodiscard]] bool loads_native_code() const noexcept override { return true; }
  [[nodiscard]] bool is_portable() const noexcept override { return true; }

  [[nodiscard]] std::shared_ptr<Engine> load(const std::filesystem::path& folder,
                                             const EngineOptions& options) override {
    EngineFile file = read_engine_file(folder, kName);
    const std::string path = file.path().string();
    try {
      if (file.device_type == DeviceType::Cuda && !cuda_unavailable_reason().empty()) {
        throw engine_error(kName, "can't load ", path, ": ", cuda_unavailable_reason());
      }
      return std::make_shared<TorchScriptEngine>(std::move(file), options);
    } catch (const Error&) {
      throw;
    } catch (...) {
      throw engine_error(kName, "can't load ", path, ": ", current_reason());
    }
  }
};

}  // namespace
}  // namespace graphtune

GRAPHTUNE_ENGINE_MODULE(graphtune::TorchScriptBackend)
