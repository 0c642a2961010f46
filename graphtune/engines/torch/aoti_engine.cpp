#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <c10/util/StringUtil.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/headeronly/version.h>

#include "graphtune/engines/concurrency_limit.h"
#include "graphtune/engines/engine.h"
#include "graphtune/engines/engine_file.h"
#include "graphtune/engines/torch/torch_engine_base.h"
#include "graphtune/engines/torch/torch_errors.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

constexpr std::string_view kName = "aoti";

// A runner is a model instance: a few kilobytes, as the weights are shared. They are made once, so
// there are enough of them for more callers than can run at a time.
std::size_t runner_count() {
  const std::size_t cores = std::thread::hardware_concurrency();
  return std::clamp<std::size_t>(2 * cores, 8, 64);
}

class AotiEngine final : public TorchEngine {
 public:
  AotiEngine(EngineFile file, DeviceType device, const EngineOptions& options)
      : TorchEngine(std::move(file), device, options),
        limit_(runner_count()),
        loader_(this->file().path().string(), "model", /*run_single_threaded=*/false,
                limit_.count()) {}

 private:
  [[nodiscard]] std::vector<at::Tensor> compute(std::vector<at::Tensor> inputs) override {
    // torch's own queue for a free runner can sleep for ever after a run that failed: never more
    // callers than runners.
    const ConcurrencyLimit::Slot slot(limit_);
    return loader_.boxed_run(std::move(inputs));
  }

  ConcurrencyLimit limit_;
  torch::inductor::AOTIModelPackageLoader loader_;
};

// Instruction sets in the order in which each includes those before it.
int isa_level(std::string_view isa) {
  if (isa == "AVX2")
    return 1;
  if (isa == "AVX512")
    return 2;
  return 0;
}

// A package holds machine code: on a processor that lacks its instructions the process would die of
// SIGILL.
DeviceType check_machine(const EngineFile& file) {
  auto metadata = torch::inductor::AOTIModelPackageLoader::load_metadata_from_package(
      file.path().string(), "model");
  const std::string& machine = metadata["AOTI_MACHINE"];
#if defined(__x86_64__)
  constexpr std::string_view kMachine = "x86_64";
  const int here = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
                       ? 2
                       : (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1 : 0);
  const std::string& isa = metadata["AOTI_CPU_ISA"];
  if (isa_level(isa) > here) {
    throw engine_error(kName, file.path().string(), " was built for ", isa,
                       ", which this processor does not have; tune again on this machine");
  }
#elif defined(__aarch64__)
  constexpr std::string_view kMachine = "aarch64";
#else
  constexpr std::string_view kMachine = "";
#endif
  if (!machine.empty() && !kMachine.empty() && machine != kMachine) {
    throw engine_error(kName, file.path().string(), " was built for ", machine,
                       ", this machine is ", kMachine);
  }
  const std::string& device = metadata["AOTI_DEVICE_KEY"];
  return device.empty() ? DeviceType::Cpu : device_type_from_string(device);
}

class AotiBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return kName; }
  [[nodiscard]] std::string version() const override { return c10::str("torch ", TORCH_VERSION); }

  [[nodiscard]] std::shared_ptr<Engine> load(const std::filesystem::path& folder,
                                             const EngineOptions& options) override {
    return load_torch_engine(folder, kName, [&](EngineFile file) {
      const DeviceType device = check_machine(file);
      require_device(file, device);
      return std::make_shared<AotiEngine>(std::move(file), device, options);
    });
  }
};

}  // namespace
}  // namespace graphtune

GRAPHTUNE_ENGINE_MODULE(graphtune::AotiBackend)
