// Engines, comparison of values and tensor files: what the tuner's worker processes use.

#include "bindings/engines.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/object.h"
#include "bindings/python_engine.h"
#include "bindings/stub_types.h"
#include "bindings/tensor_access.h"
#include "graphtune/engines/cuda_device.h"
#include "graphtune/engines/engine.h"
#include "graphtune/engines/registry.h"
#include "graphtune/error.h"
#include "graphtune/safetensors.h"
#include "graphtune/tune/compare.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace graphtune::python {
namespace {

std::vector<Tensor> contiguous_tensors(const TensorSequence& objects) {
  std::vector<Tensor> tensors;
  for (const nb::handle object : objects) {
    if (!is_tensor(object.ptr())) {
      throw TypeError("inputs must be torch tensors, got " + type_name_of(Py_TYPE(object.ptr())));
    }
    tensors.push_back(to_core(object.ptr()).contiguous());
  }
  return tensors;
}

TensorList torch_tensors(const std::vector<Tensor>& tensors) {
  TensorList result;
  for (const Tensor& tensor : tensors) {
    result.append(nb::steal(from_core(tensor)));
  }
  return result;
}

// One engine, loaded. Holds it by shared_ptr: a router may serve it too.
class LoadedEngine {
 public:
  LoadedEngine(const std::string& backend, const Path& folder, int threads) {
    const nb::gil_scoped_release release;
    Backend& found = find_backend(backend);
    if (const std::string reason = found.unavailable_reason(); !reason.empty()) {
      throw EngineError(backend + ": " + reason);
    }
    engine_ = load_engine(found, folder, EngineOptions{.threads = threads});
  }

  [[nodiscard]] std::string backend() const { return std::string(engine_->backend()); }

  TensorList run(const TensorSequence& inputs) {
    const std::vector<Tensor> tensors = contiguous_tensors(inputs);
    std::vector<Tensor> outputs;
    {
      const nb::gil_scoped_release release;
      engine_->run(tensors, outputs);
    }
    return torch_tensors(outputs);
  }

  // Seconds of each of `calls` runs, one after another.
  std::vector<double> time(const TensorSequence& inputs, int calls) {
    const std::vector<Tensor> tensors = contiguous_tensors(inputs);
    std::vector<double> seconds;
    const nb::gil_scoped_release release;
    std::vector<Tensor> outputs;
    for (int call = 0; call < calls; ++call) {
      const auto start = std::chrono::steady_clock::now();
      engine_->run(tensors, outputs);
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      seconds.push_back(elapsed.count());
    }
    return seconds;
  }

 private:
  std::shared_ptr<Engine> engine_;
};

Tensor core_tensor(const nb::handle object, const char* argument) {
  if (!is_tensor(object.ptr())) {
    throw TypeError(std::string(argument) + " must be a torch tensor, got " +
                    type_name_of(Py_TYPE(object.ptr())));
  }
  return to_core(object.ptr());
}

std::pair<double, double> tolerance_of(const nb::handle dtype) {
  const Tolerance tolerance = default_tolerance(dtype_from_python(dtype.ptr()));
  return {tolerance.relative, tolerance.absolute};
}

TensorDict read_tensors(const Path& path) {
  TensorDict result;
  for (const auto& [name, tensor] : read_safetensors(path)) {
    result[nb::str(name.c_str(), name.size())] = nb::steal(from_core(tensor));
  }
  return result;
}

void write_tensors(const Path& path, const TensorDict& tensors) {
  std::vector<std::pair<std::string, Tensor>> named;
  for (const auto& [name, tensor] : tensors) {
    named.emplace_back(nb::cast<std::string>(name), core_tensor(tensor, "each value").contiguous());
  }
  write_safetensors(path, named);
}

}  // namespace

void bind_engines(nb::module_& module) {
  nb::class_<BackendInfo>(module, "BackendInfo", "A backend of this installation")
      .def_ro("name", &BackendInfo::name)
      .def_ro("version", &BackendInfo::version, "Runtime and version; empty when absent")
      .def_ro("unavailable_reason", &BackendInfo::unavailable_reason, "Empty when it can be used")
      .def_ro("loads_native_code", &BackendInfo::loads_native_code,
              "What it loads is code: a bundle's needs the caller's word")
      .def("__repr__", [](const BackendInfo& info) {
        return "BackendInfo(" + info.name + ": " +
               (info.unavailable_reason.empty() ? info.version : info.unavailable_reason) + ")";
      });
  module.def(
      "backend_info",
      [](const std::string& name, const std::map<std::string, std::string>& options) {
        return backend_info(name, options);
      },
      "name"_a, "options"_a = std::map<std::string, std::string>(),
      "One backend, tried for engines with these options; opens no other.");
  module.def("cuda_unavailable_reason", &cuda_unavailable_reason,
             "Why there is no CUDA device; empty where there is one.");
  module.def(
      "register_python_backend",
      [](const std::string& name, const std::string& class_name) {
        register_backend(std::make_shared<PythonBackend>(name, class_name));
      },
      "name"_a, "class_name"_a,
      "Joins engines that are written in Python: a class by 'module:qualname'. Raises ValueError.");
  // Imported when it is first asked for.
  register_backend(
      std::make_shared<PythonBackend>("inductor", "graphtune.inductor_engine:InductorEngine"));
  module.def("list_backends", &list_backends, "Backends of this installation, each tried.");

  nb::class_<LoadedEngine>(module, "Engine",
                           "A built engine, loaded. Calls may run in several threads at once.")
      .def(nb::init<const std::string&, const Path&, int>(), "backend"_a, "folder"_a,
           "threads"_a = 0, "Loads what a build wrote to `folder`. Raises EngineError.")
      .def_prop_ro("backend", &LoadedEngine::backend)
      .def("run", &LoadedEngine::run, "inputs"_a,
           "Runs flat tensors, in canonical order, without any check of their sizes or values.")
      .def("time", &LoadedEngine::time, "inputs"_a, "calls"_a, "Seconds of each of `calls` runs.");

  nb::class_<Comparison>(module, "Comparison", "One tensor against eager's")
      .def_ro("max_absolute", &Comparison::max_absolute)
      .def_ro("max_relative", &Comparison::max_relative)
      .def_ro("outside", &Comparison::outside, "Elements outside the tolerance")
      .def_ro("element_count", &Comparison::element_count)
      .def_ro("problem", &Comparison::problem, "Empty when all is within the tolerance")
      .def("ok", &Comparison::ok);
  module.def(
      "compare",
      [](const nb::handle actual, const nb::handle expected, double relative, double absolute,
         const std::string& name) {
        return compare(core_tensor(actual, "actual"), core_tensor(expected, "expected"),
                       {relative, absolute}, name);
      },
      "actual"_a, "expected"_a, "relative"_a, "absolute"_a, "name"_a,
      "Compares element by element: |actual - expected| <= absolute * scale + relative * "
      "|expected|, where scale is the "
      "largest |expected|, at least 1.");
  module.def("default_tolerance", &tolerance_of, "dtype"_a,
             "(relative, absolute) for a torch.dtype.");
  module.def("read_safetensors", &read_tensors, "path"_a,
             "Tensors by name. Raises ValueError for a damaged file.");
  module.def("write_safetensors", &write_tensors, "path"_a, "tensors"_a, "Writes tensors by name.");
}

}  // namespace graphtune::python
