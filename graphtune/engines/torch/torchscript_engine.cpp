#include <string>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/headeronly/version.h>

#include "graphtune/engines/engine.h"
#include "graphtune/engines/engine_file.h"
#include "graphtune/engines/torch/torch_engine_base.h"
#include "graphtune/engines/torch/torch_errors.h"
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

class TorchScriptEngine final : public TorchEngine {
 public:
  TorchScriptEngine(EngineFile file, DeviceType device, const EngineOptions& options)
      : TorchEngine(std::move(file), device, options),
        optimize_(optimizes(this->file())),
        module_(torch::jit::load(this->file().path().string(),
                                 c10::Device(static_cast<c10::DeviceType>(device)))),
        forward_(module_.get_method("forward")) {
    const std::size_t takes = forward_.function().getSchema().arguments().size() - 1;  // but self
    if (takes != this->file().inputs.size()) {
      throw engine_error(kName, this->file().path().string(), " takes ", takes, " inputs, its ",
                         EngineFile::kName, " says ", this->file().inputs.size());
    }
  }

 private:
  // A method may be run by several threads at once: each run has its own interpreter, and the
  // executor compiles under a lock.
  [[nodiscard]] std::vector<at::Tensor> compute(std::vector<at::Tensor> inputs) override {
    const torch::jit::GraphOptimizerEnabledGuard optimizer(optimize_);
    std::vector<c10::IValue> stack;
    stack.reserve(inputs.size() + 1);
    stack.emplace_back(module_._ivalue());
    for (at::Tensor& input : inputs) {
      stack.emplace_back(std::move(input));
    }
    forward_.function().run(stack);
    return take_results(std::move(stack));
  }

  // Nothing else holds the results afterwards, or they would be copied.
  static std::vector<at::Tensor> take_results(std::vector<c10::IValue> stack) {
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

  bool optimize_;
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
    return load_torch_engine(folder, kName, [&](EngineFile file) {
      const DeviceType device = file.device_type;
      require_device(file, device);
      return std::make_shared<TorchScriptEngine>(std::move(file), device, options);
    });
  }
};

}  // namespace
}  // namespace graphtune

GRAPHTUNE_ENGINE_MODULE(graphtune::TorchScriptBackend)
