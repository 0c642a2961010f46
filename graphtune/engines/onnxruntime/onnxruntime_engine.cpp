#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <onnxruntime_session_options_config_keys.h>

#include "graphtune/engines/engine.h"
#include "graphtune/engines/engine_file.h"
#include "graphtune/engines/onnxruntime/element_types.h"
#include "graphtune/engines/onnxruntime/runtime.h"
#include "graphtune/engines/onnxruntime/session_settings.h"
#include "graphtune/engines/spinning_threads.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

constexpr std::string_view kName = "onnxruntime";

template <typename... Parts>
EngineError engine_error(fmt::format_string<Parts...> format, Parts&&... parts) {
  return EngineError(
      fmt::format("engine '{}': {}", kName, fmt::format(format, std::forward<Parts>(parts)...)));
}

/// A result, which lives in the session's own memory.
struct Held {
  std::shared_ptr<Ort::Session> session;  // destroyed after the value
  Ort::Value value{nullptr};
};

class OnnxRuntimeEngine final : public Engine {
 public:
  OnnxRuntimeEngine(EngineFile file, std::shared_ptr<Ort::Session> session)
      : file_(std::move(file)),
        session_(std::move(session)),
        memory_(Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault)) {
    check_counts();
    Ort::AllocatorWithDefaultOptions allocator;
    for (std::size_t i = 0; i < file_.inputs.size(); ++i) {
      const EngineFile::Input& input = file_.inputs[i];
      check_port("input", i, session_->GetInputTypeInfo(i), input.dtype, input.sizes.size());
      input_names_.emplace_back(session_->GetInputNameAllocated(i, allocator).get());
      input_types_.push_back(*onnx_type(input.dtype));
    }
    for (const EngineFile::Output& output : file_.outputs) {
      check_port("output", output.result, session_->GetOutputTypeInfo(output.result), output.dtype,
                 output.rank);
    }
    for (std::size_t i = 0; i < file_.result_count; ++i) {
      output_names_.emplace_back(session_->GetOutputNameAllocated(i, allocator).get());
    }
    for (const std::string& name : input_names_) {
      input_pointers_.push_back(name.c_str());
    }
    for (const std::string& name : output_names_) {
      output_pointers_.push_back(name.c_str());
    }
  }

  [[nodiscard]] std::string_view backend() const noexcept override { return kName; }

  // A session may be run by several threads at once.
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) override {
    outputs.clear();
    file_.check_inputs(inputs, DeviceType::Cpu);
    end_spinning();
    try {
      run_checked(inputs, outputs);
    } catch (const Error&) {
      outputs.clear();
      throw;
    } catch (const std::exception& error) {
      outputs.clear();
      throw engine_error("{}", error.what());
    }
  }

 private:
  void check_counts() const {
    if (session_->GetInputCount() != file_.inputs.size() ||
        session_->GetOutputCount() != file_.result_count) {
      throw engine_error("{} has {} inputs and {} outputs, its {} says {} and {}",
                         file_.path().string(), session_->GetInputCount(),
                         session_->GetOutputCount(), EngineFile::kName, file_.inputs.size(),
                         file_.result_count);
    }
  }

  void check_port(std::string_view kind, std::size_t index, const Ort::TypeInfo& info, DType dtype,
                  std::size_t rank) const {
    if (info.GetONNXType() != ONNX_TYPE_TENSOR) {
      throw engine_error("{} {} of {} is no tensor", kind, index, file_.path().string());
    }
    const auto facts = info.GetTensorTypeAndShapeInfo();
    const ONNXTensorElementDataType type = facts.GetElementType();
    if (onnx_type(dtype) != type || facts.GetDimensionsCount() != rank) {
      throw engine_error("{} {} of {} is {} of rank {}, its {} says {} of rank {}", kind, index,
                         file_.path().string(), onnx_type_name(type), facts.GetDimensionsCount(),
                         EngineFile::kName, to_string(dtype), rank);
    }
  }

  void run_checked(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) const {
    static char nothing = 0;  // an empty tensor must still have an address
    std::vector<Ort::Value> values;
    values.reserve(file_.inputs.size());
    for (std::size_t i = 0; i < file_.inputs.size(); ++i) {
      const Tensor& tensor = inputs[file_.inputs[i].index];
      void* data = tensor.data() == nullptr ? &nothing : tensor.data();
      values.push_back(Ort::Value::CreateTensor(memory_, data, tensor.byte_size(),
                                                tensor.sizes().data(), tensor.sizes().size(),
                                                input_types_[i]));
    }
    // Run takes the callers' memory as it is. An IoBinding, which would have to be bound anew for
    // each call, takes 9 to 13 % longer (1 and 5 tensors, version 1.32).
    std::vector<Ort::Value> results =
        session_->Run(Ort::RunOptions(nullptr), input_pointers_.data(), values.data(),
                      values.size(), output_pointers_.data(), output_pointers_.size());
    hand_out(results, inputs, outputs);
  }

  void hand_out(std::vector<Ort::Value>& results, std::span<const Tensor> inputs,
                std::vector<Tensor>& outputs) const {
    std::vector<Tensor> taken(results.size());
    outputs.reserve(file_.outputs.size());
    for (std::size_t i = 0; i < file_.outputs.size(); ++i) {
      const EngineFile::Output& output = file_.outputs[i];
      Tensor& tensor = taken[output.result];
      if (!tensor.defined()) {
        tensor = take(results[output.result], i, inputs);
      }
      file_.check_output(i, tensor.dtype(), tensor.sizes().size());
      outputs.push_back(tensor);
    }
  }

  Tensor take(Ort::Value& value, std::size_t index, std::span<const Tensor> inputs) const {
    const EngineFile::Output& output = file_.outputs[index];
    if (!value.IsTensor()) {
      throw engine_error("output {} is no tensor", index);
    }
    const auto facts = value.GetTensorTypeAndShapeInfo();
    if (facts.GetElementType() != onnx_type(output.dtype)) {
      throw engine_error("output {} is {}, its {} promises {}", index,
                         onnx_type_name(facts.GetElementType()), EngineFile::kName,
                         to_string(output.dtype));
    }
    const std::vector<std::int64_t> shape = facts.GetShape();
    Dims sizes(shape);
    Dims strides = contiguous_strides(sizes.span());
    void* data = value.GetTensorMutableRawData();
    const bool borrowed = std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& input) {
      return input.data() == data && data != nullptr;
    });
    if (borrowed) {  // the caller's own memory: a result is never an input here
      Tensor copy = Tensor::empty(output.dtype, sizes);
      std::memcpy(copy.data(), data, copy.byte_size());
      return copy;
    }
    auto held = std::make_shared<Held>();
    held->session = session_;
    held->value = std::move(value);
    return Tensor(data, output.dtype, std::move(sizes), std::move(strides), std::move(held));
  }

  EngineFile file_;
  std::shared_ptr<Ort::Session> session_;
  Ort::MemoryInfo memory_;
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
  std::vector<const char*> input_pointers_;
  std::vector<const char*> output_pointers_;
  std::vector<ONNXTensorElementDataType> input_types_;
};

Ort::SessionOptions session_options(const EngineFile& file, const SessionSettings& settings,
                                    const EngineOptions& options) {
  Ort::SessionOptions session;
  session.SetGraphOptimizationLevel(settings.optimization);
  session.SetIntraOpNumThreads(file.thread_count(options.threads));
  // A pattern is kept for each set of input sizes: with sizes that vary, that is memory without
  // end.
  session.DisableMemPattern();
  // Its threads stop spinning when a call is done: they would take the cores of other engines in
  // this process, and of the caller. So each session has a pool of its own: the threads of a pool
  // for the whole process would spin at all times or never.
  session.AddConfigEntry(kOrtSessionOptionsConfigForceSpinningStop, "1");
  for (const auto& [name, value] : settings.config) {
    session.AddConfigEntry(name.c_str(), value.c_str());
  }
  append_providers(session, settings);
  return session;
}

class OnnxRuntimeBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return kName; }

  [[nodiscard]] std::string version() const override {
    const std::string& version = OnnxRuntime::instance().version;
    return version.empty() ? version : "onnxruntime " + version;
  }

  [[nodiscard]] std::string unavailable_reason() const override {
    return OnnxRuntime::instance().unavailable_reason;
  }

  [[nodiscard]] std::string unavailable_reason_for(
      const std::map<std::string, std::string>& options) const override {
    const std::string reason = unavailable_reason();
    return reason.empty() ? providers_unavailable_reason(parse_settings(options)) : reason;
  }

  // A model is data; custom operators, which are code, are not loaded.
  [[nodiscard]] bool loads_native_code() const noexcept override { return false; }

  [[nodiscard]] std::shared_ptr<Engine> load(const std::filesystem::path& folder,
                                             const EngineOptions& options) override {
    EngineFile file = read_engine_file(folder, kName);
    Ort::Env& environment = OnnxRuntime::environment();
    const std::string path = file.path().string();
    if (file.device_type != DeviceType::Cpu) {
      throw engine_error("{} was built for {}, but this engine takes and gives tensors of the CPU",
                         path, to_string(file.device_type));
    }
    const SessionSettings settings = parse_settings(file.options);
    if (const std::string reason = providers_unavailable_reason(settings); !reason.empty()) {
      throw engine_error("can't load {}: {}", path, reason);
    }
    try {
      auto session = std::make_shared<Ort::Session>(environment, path.c_str(),
                                                    session_options(file, settings, options));
      return std::make_shared<OnnxRuntimeEngine>(std::move(file), std::move(session));
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw engine_error("can't load {}: {}", path, error.what());
    }
  }
};

}  // namespace
}  // namespace graphtune

GRAPHTUNE_ENGINE_MODULE(graphtune::OnnxRuntimeBackend)
