#include <algorithm>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <openvino/core/version.hpp>
#include <openvino/runtime/core.hpp>
#include <openvino/runtime/properties.hpp>

#include "graphtune/engines/engine.h"
#include "graphtune/engines/engine_file.h"
#include "graphtune/engines/openvino/element_types.h"
#include "graphtune/engines/openvino/request.h"
#include "graphtune/engines/spinning_threads.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

constexpr std::string_view kName = "openvino";

// OpenVINO wraps a message in "Exception from FILE:LINE:" and "Check '…' failed at FILE:LINE:"
// lines; what is left says what happened.
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

template <typename T>
bool is_outside_int32(T value) {
  if constexpr (std::is_signed_v<T>) {
    return value != static_cast<std::int32_t>(value);
  } else {
    return value > static_cast<T>(std::numeric_limits<std::int32_t>::max());
  }
}

template <typename T>
void refuse_outside_int32(std::size_t index, const Tensor& tensor) {
  const std::span values(static_cast<const T*>(tensor.data()),
                         static_cast<std::size_t>(tensor.element_count()));
  bool outside = false;  // no early exit, so that the loop is vectorised
  for (const T value : values) {
    outside |= is_outside_int32(value);
  }
  if (outside) {
    const T value = *std::find_if(values.begin(), values.end(), is_outside_int32<T>);
    throw EngineError(fmt::format(
        "engine '{}': tensor {} holds {}, but OpenVINO computes {} as int32 on a CPU and would "
        "wrap it; such values need another engine",
        kName, index, value, to_string(tensor.dtype())));
  }
}

void refuse_wrapped_values(std::size_t index, const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::Int64:
      return refuse_outside_int32<std::int64_t>(index, tensor);
    case DType::UInt64:
      return refuse_outside_int32<std::uint64_t>(index, tensor);
    case DType::UInt32:
      return refuse_outside_int32<std::uint32_t>(index, tensor);
    default:
      return;
  }
}

struct SizeRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

std::vector<SizeRange> size_ranges(const ov::PartialShape& shape) {
  std::vector<SizeRange> ranges;
  if (shape.rank().is_static()) {
    for (const ov::Dimension& size : shape) {
      const std::int64_t max =
          size.get_interval().get_max_val();  // the largest int64 when it has no bound
      ranges.push_back({size.get_min_length(), max});
    }
  }
  return ranges;
}

class OpenVinoEngine final : public Engine {
 public:
  OpenVinoEngine(EngineFile file, const ov::CompiledModel& model)
      : file_(std::move(file)), pool_(model, file_) {
    check_ports(model);
    pool_.give_back(
        pool_.take());  // what a request can refuse is refused now, not at the first call
  }

  [[nodiscard]] std::string_view backend() const noexcept override { return kName; }

  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) override {
    outputs.clear();
    file_.check_inputs(inputs, DeviceType::Cpu);
    for (std::size_t i = 0; i < file_.inputs.size(); ++i) {
      const Tensor& tensor = inputs[file_.inputs[i].index];
      check_sizes(i, tensor);
      refuse_wrapped_values(file_.inputs[i].index, tensor);
    }
    end_spinning();
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
  void check_ports(const ov::CompiledModel& model) {
    const auto& inputs = model.inputs();
    const auto& outputs = model.outputs();
    if (inputs.size() != file_.inputs.size() || outputs.size() != file_.result_count) {
      throw EngineError(
          fmt::format("engine '{}': {} has {} inputs and {} outputs, its {} says {} and {}", kName,
                      file_.path().string(), inputs.size(), outputs.size(), EngineFile::kName,
                      file_.inputs.size(), file_.result_count));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const EngineFile::Input& input = file_.inputs[i];
      check_port("input", i, inputs[i], same_elements(input.dtype, inputs[i].get_element_type()),
                 input.dtype, input.sizes.size());
      sizes_.push_back(size_ranges(inputs[i].get_partial_shape()));
    }
    for (const EngineFile::Output& output : file_.outputs) {
      const auto& port = outputs[output.result];
      check_port("output", output.result, port, can_convert(port.get_element_type(), output.dtype),
                 output.dtype, output.rank);
    }
  }

  void check_port(std::string_view kind, std::size_t index, const ov::Output<const ov::Node>& port,
                  bool fits, DType dtype, std::size_t rank) const {
    const ov::Rank port_rank = port.get_partial_shape().rank();
    if (!fits || !port_rank.compatible(ov::Rank(static_cast<std::int64_t>(rank)))) {
      throw EngineError(fmt::format(
          "engine '{}': {} {} of {} is {} {}, its {} says {} of rank {}", kName, kind, index,
          file_.path().string(), port.get_element_type().to_string(),
          port.get_partial_shape().to_string(), EngineFile::kName, to_string(dtype), rank));
    }
    if (dtype == DType::Float64) {
      throw EngineError(fmt::format(
          "engine '{}': {} {} of {} is float64, which OpenVINO computes as float32 on a CPU; "
          "use another engine",
          kName, kind, index, file_.path().string()));
    }
  }

  // With dynamic shapes OpenVINO itself does not hold the sizes against the model's.
  void check_sizes(std::size_t slot, const Tensor& tensor) const {
    const std::vector<SizeRange>& built = sizes_[slot];
    for (std::size_t axis = 0; axis < built.size(); ++axis) {
      const std::int64_t size = tensor.sizes()[axis];
      if (size < built[axis].min || size > built[axis].max) {
        throw EngineError(
            fmt::format("engine '{}': axis {} of tensor {} is {}, it was built for {} .. {}", kName,
                        axis, file_.inputs[slot].index, size, built[axis].min, built[axis].max));
      }
    }
  }

  EngineFile file_;  // before what refers to it
  RequestPool pool_;
  std::vector<std::vector<SizeRange>> sizes_;
};

class OpenVinoBackend final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return kName; }

  [[nodiscard]] std::string version() const override {
    const std::string build =
        ov::get_openvino_version().buildNumber;  // "2026.4.1-22982-e213a147257-…"
    return fmt::format("openvino {}", build.substr(0, build.find('-')));
  }

  // A model is data, which the runtime compiles here.
  [[nodiscard]] bool loads_native_code() const noexcept override { return false; }

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
    if (file.device_type != DeviceType::Cpu) {
      throw EngineError(
          fmt::format("engine '{}': {} was built for {}, but this engine takes tensors of the CPU",
                      kName, path, to_string(file.device_type)));
    }
    try {
      ov::CompiledModel model =
          core().compile_model(core().read_model(path), "CPU", properties(file, options));
      return std::make_shared<OpenVinoEngine>(std::move(file), model);
    } catch (const Error&) {
      throw;
    } catch (...) {
      throw EngineError(
          fmt::format("engine '{}': can't load {}: {}", kName, path, current_reason()));
    }
  }

 private:
  static ov::AnyMap properties(const EngineFile& file, const EngineOptions& options) {
    // Values like eager's: nothing is computed in a shorter type than the model's own.
    ov::AnyMap map = {
        ov::hint::performance_mode(ov::hint::PerformanceMode::LATENCY),
        ov::hint::execution_mode(ov::hint::ExecutionMode::ACCURACY),
        ov::hint::inference_precision(ov::element::f32),
    };
    for (const auto& [name, value] : file.options) {
      map[name] = value == "true" ? "YES" : value == "false" ? "NO" : value;  // OpenVINO's words
    }
    if (const int threads = file.thread_count(options.threads); threads > 0) {
      // A stream runs one call at a time, with its share of the threads: as many callers as the
      // processor has room for are served at once. They share the weights.
      const int cores = static_cast<int>(std::thread::hardware_concurrency());
      const int streams = std::max(1, cores / threads);
      map.insert_or_assign(ov::num_streams.name(), ov::streams::Num(streams));
      map.insert_or_assign(ov::inference_num_threads.name(), threads * streams);
    }
    map.insert_or_assign(ov::cache_dir.name(),
                         std::string());  // an engine writes no files, whatever its options say
    return map;
  }
};

}  // namespace
}  // namespace graphtune

GRAPHTUNE_ENGINE_MODULE(graphtune::OpenVinoBackend)
