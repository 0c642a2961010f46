#include <fmt/format.h>

#include <exception>
#include <limits>
#include <string>
#include <utility>

#include <openvino/core/version.hpp>
#include <openvino/runtime/core.hpp>
#include <openvino/runtime/properties.hpp>

#include "graphtune/engines/engine.h"
#include "graphtune/engines/engine_file.h"
#include "graphtune/engines/openvino/element_types.h"
#include "graphtune/engines/openvino/request.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

constexpr std::string_view kName = "openvino";

// OpenVINO wraps a message in "Exception from FILE:LINE:" and "Check '…' failed at FILE:LINE:" lines; what is left says
// what happened.
std::string first_telling_line(std::string_view text) {
  std::string fallback = "no reason given";
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    end = end == std::string_view::npos ? text.size() : end;
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t blank = line.find_first_not_of(" \t\r");
    if (blank == std::string_view::npos) {
      continue;
    }
    line.remove_prefix(blank);
    if (!line.starts_with("Exception from ") && !line.starts_with("Check '")) {
      return std::string(line);
    }
    fallback = line;
  }
  return fallback;
}

// Must be called in a catch block.
std::string current_reason() {
  try {
    throw;
  } catch (const std::exception& error) {
    return first_telling_line(error.what());
  } catch (...) {
    return "an exception of unknown type";
  }
}

// Never destroyed: models and requests may outlive any order of destruction at exit.
ov::Core& core() {
  static auto* const instance = new ov::Core;
  return *instance;
}

bool is_narrowed(DType dtype) {
  return dtype == DType::Int64 || dtype == DType::UInt32 || dtype == DType::UInt64;
}

template <typename T>
const T* find_outside_int32(const Tensor& tensor) {
  using Limits = std::numeric_limits<std::int32_t>;
  const T* const begin = static_cast<const T*>(tensor.data());
  const T* const end = begin + tensor.element_count();
  bool outside = false;  // no early exit, so that the loop is vectorised
  for (const T* value = begin; value != end; ++value) {
    if constexpr (std::is_signed_v<T>) {
      outside |= *value != static_cast<std::int32_t>(*value);
    } else {
      outside |= *value > static_cast<T>(Limits::max());
    }
  }
  if (!outside) {
    return nullptr;
  }
  for (const T* value = begin;; ++value) {
    if (std::is_signed_v<T> ? *value != static_cast<T>(static_cast<std::int32_t>(*value))
                            : *value > static_cast<T>(Limits::max())) {
      return value;
    }
  }
}

template <typename T>
void refuse_outside_int32(std::size_t index, const Tensor& tensor) {
  if (const T* value = find_outside_int32<T>(tensor)) {
    throw EngineError(fmt::format("engine '{}': tensor {} holds {}, but OpenVINO computes {} as int32 on a CPU and would "
                                  "wrap it; such values need another engine",
                                  kName, index, *value, to_string(tensor.dtype())));
  }
}

class OpenVinoEngine final : public Engine {
 public:
  OpenVinoEngine(EngineFile file, ov::CompiledModel model) : file_(std::move(file)), pool_(model, file_) {
    check_ports(model);
    for (const auto& port : model.inputs()) {
      shapes_.push_back(port.get_partial_shape());
    }
    pool_.give_back(pool_.take());  // what a request can refuse is refused now, not at the first call
  }

  [[nodiscard]] std::string_view backend() const noexcept override { return kName; }

  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) override {
    outputs.clear();
    file_.check_inputs(inputs, DeviceType::Cpu);
    for (std::size_t i = 0; i < file_.inputs.size(); ++i) {
      check_sizes(i, inputs[file_.inputs[i].index]);
    }
    try {
      std::unique_ptr<Request> request = pool_.take();
      request->run(inputs, outputs);
      pool_.give_back(std::move(request));
    } catch (const Error&) {
      outputs.clear();
      throw;
    } catch (...) {
      outputs.clear();
      throw EngineError(fmt::format("engine '{}': {}", kName, current_reason()));
    }
  }

 private:
  void check_ports(const ov::CompiledModel& model) const {
    const auto& inputs = model.inputs();
    const auto& outputs = model.outputs();
    if (inputs.size() != file_.inputs.size() || outputs.size() != file_.outputs.size()) {
      throw EngineError(fmt::format("engine '{}': {} has {} inputs and {} outputs, its {} says {} and {}", kName,
                                    file_.path().string(), inputs.size(), outputs.size(), EngineFile::kName,
                                    file_.inputs.size(), file_.outputs.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check_port("input", i, inputs[i], file_.inputs[i].dtype, file_.inputs[i].rank);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      check_port("output", i, outputs[i], file_.outputs[i].dtype, file_.outputs[i].rank);
    }
  }

  void check_port(std::string_view kind, std::size_t index, const ov::Output<const ov::Node>& port, DType dtype,
                  int rank) const {
    const ov::Rank port_rank = port.get_partial_shape().rank();
    const bool same_rank = rank == EngineFile::kUnknownRank || port_rank.compatible(ov::Rank(rank));
    if (!same_elements(dtype, port.get_element_type()) || !same_rank) {
      throw EngineError(fmt::format("engine '{}': {} {} of {} is {} {}, its {} says {} of rank {}", kName, kind, index,
                                    file_.path().string(), port.get_element_type().to_string(),
                                    port.get_partial_shape().to_string(), EngineFile::kName, to_string(dtype), rank));
    }
    if (dtype == DType::Float64) {
      throw EngineError(fmt::format("engine '{}': {} {} of {} is float64, which OpenVINO computes as float32 on a CPU; "
                                    "use another engine",
                                    kName, kind, index, file_.path().string()));
    }
  }

  // With dynamic shapes OpenVINO itself does not hold the sizes against the model's.
  void check_sizes(std::size_t slot, const Tensor& tensor) const {
    const ov::PartialShape& shape = shapes_[slot];
    const std::size_t index = file_.inputs[slot].index;
    if (shape.rank().is_static()) {
      bool fits = shape.size() == tensor.sizes().size();
      for (std::size_t axis = 0; fits && axis < shape.size(); ++axis) {
        fits = shape[axis].compatible(ov::Dimension(tensor.sizes()[axis]));
      }
      if (!fits) {
        throw EngineError(fmt::format("engine '{}': tensor {} has sizes [{}], it was built for {}", kName, index,
                                      fmt::join(tensor.sizes().span(), ", "), shape.to_string()));
      }
    }
    if (is_narrowed(tensor.dtype())) {
      switch (tensor.dtype()) {
        case DType::Int64: refuse_outside_int32<std::int64_t>(index, tensor); break;
        case DType::UInt64: refuse_outside_int32<std::uint64_t>(index, tensor); break;
        default: refuse_outside_int32<std::uint32_t>(index, tensor); break;
      }
    }
  }

  EngineFile file_;  // before what refers to it
  RequestPool pool_;
  std::vector<ov::PartialShape> shapes_;
};

class OpenVinoBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return kName; }

  [[nodiscard]] std::string version() const override {
    return fmt::format("openvino {}.{}.{}", OPENVINO_VERSION_MAJOR, OPENVINO_VERSION_MINOR, OPENVINO_VERSION_PATCH);
  }

  [[nodiscard]] std::string unavailable_reason() const override {
    try {
      const auto devices = core().get_available_devices();
      for (const std::string& device : devices) {
        if (device.starts_with("CPU")) {
          return {};
        }
      }
      return "OpenVINO finds no CPU plugin";
    } catch (...) {
      return current_reason();
    }
  }

  [[nodiscard]] std::shared_ptr<Engine> load(const std::filesystem::path& folder,
                                             const EngineOptions& options) override {
    EngineFile file = read_engine_file(folder, kName);
    const std::string path = file.path().string();
    try {
      // Values like eager's: nothing is computed in a shorter type than the model's own.
      ov::AnyMap properties = {
          ov::hint::performance_mode(ov::hint::PerformanceMode::LATENCY),
          ov::hint::execution_mode(ov::hint::ExecutionMode::ACCURACY),
          ov::hint::inference_precision(ov::element::f32),
          ov::cache_dir(""),
      };
      if (options.threads > 0) {
        properties.insert(ov::inference_num_threads(options.threads));
      }
      ov::CompiledModel model = core().compile_model(core().read_model(path), "CPU", properties);
      return std::make_shared<OpenVinoEngine>(std::move(file), std::move(model));
    } catch (const Error&) {
      throw;
    } catch (...) {
      throw EngineError(fmt::format("engine '{}': can't load {}: {}", kName, path, current_reason()));
    }
  }
};

}  // namespace
}  // namespace graphtune

GRAPHTUNE_ENGINE_MODULE(graphtune::OpenVinoBackend)
