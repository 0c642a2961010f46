#include "bindings/python_engine.h"

#include <span>
#include <utility>
#include <vector>

#include <c10/core/InferenceMode.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/tensor_access.h"
#include "graphtune/engines/engine_file.h"
#include "graphtune/engines/torch/openmp_threads.h"
#include "graphtune/error.h"

namespace nb = nanobind;

namespace graphtune::python {
namespace {

/// "ValueError: no such size"; called with the GIL held.
std::string one_line(const nb::python_error& error) {
  std::string text = nb::cast<std::string>(error.type().attr("__name__"));
  const std::string message = nb::cast<std::string>(nb::str(error.value()));
  for (const char c : message.empty() ? message : ": " + message) {
    text += c == '\n' ? ' ' : c;
  }
  return text;
}

/// Runs `action`, which calls Python, with the GIL held.
template <typename Action>
auto with_python(std::string_view backend, Action action) {
  if (Py_IsInitialized() == 0) {
    throw EngineError("engine '" + std::string(backend) + "': Python has ended");
  }
  const nb::gil_scoped_acquire acquired;
  try {
    return action();
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) {
      throw;
    }
    throw EngineError("engine '" + std::string(backend) + "': " + one_line(error));
  } catch (const nb::cast_error&) {
    throw EngineError("engine '" + std::string(backend) + "': it gave an object of a wrong type");
  }
}

nb::object helper(const char* name) {
  return nb::module_::import_("graphtune.python_engines").attr(name);
}

class PythonEngine final : public Engine {
 public:
  PythonEngine(EngineFile file, nb::object function)
      : file_(std::move(file)), function_(std::move(function)) {}

  ~PythonEngine() override {
    if (Py_IsInitialized() == 0) {
      (void)function_.release();  // its memory went with Python
      return;
    }
    const nb::gil_scoped_acquire acquired;
    function_.reset();
  }

  [[nodiscard]] std::string_view backend() const noexcept override { return file_.backend; }
  [[nodiscard]] bool keeps_inputs() const noexcept override { return true; }

  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) override {
    outputs.clear();
    file_.check_inputs(inputs, file_.device_type);
    try {
      with_python(file_.backend, [&] { run_checked(inputs, outputs); });
    } catch (...) {
      outputs.clear();
      throw;
    }
  }

 private:
  // The function gives tensors that nobody else holds, without gradients: see python_engines.py.
  void run_checked(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) const {
    // Whatever mode the caller is in, the function sees plain tensors: torch.compile makes other
    // code for others.
    const c10::InferenceMode plain(false);
    nb::list given;
    for (const EngineFile::Input& input : file_.inputs) {
      given.append(nb::steal(from_core(inputs[input.index])));
    }
    const nb::list results = nb::cast<nb::list>(function_(given));
    leave_openmp_spinning();
    if (results.size() != file_.result_count) {
      throw EngineError("engine '" + file_.backend + "': gave " + std::to_string(results.size()) +
                        " results, its engine.json promises " + std::to_string(file_.result_count));
    }
    outputs.reserve(file_.outputs.size());
    for (std::size_t i = 0; i < file_.outputs.size(); ++i) {
      const nb::object result = results[file_.outputs[i].result];
      if (!is_tensor(result.ptr())) {
        throw EngineError("engine '" + file_.backend + "': output " + std::to_string(i) +
                          " is no tensor");
      }
      Tensor tensor = to_core(result.ptr());
      file_.check_output(i, tensor.dtype(), tensor.sizes().size());
      outputs.push_back(std::move(tensor));
    }
  }

  EngineFile file_;
  nb::object function_;
};

}  // namespace

std::string PythonBackend::version() const {
  return with_python(name_,
                     [&] { return nb::cast<std::string>(helper("engine_version")(class_name_)); });
}

std::string PythonBackend::unavailable_reason() const {
  return with_python(name_, [&] {
    return nb::cast<std::string>(helper("engine_unavailable_reason")(class_name_));
  });
}

std::shared_ptr<Engine> PythonBackend::load(const std::filesystem::path& folder,
                                            const EngineOptions& options) {
  EngineFile file = read_engine_file(folder, name_);
  const int threads = file.thread_count(options.threads);
  return with_python(name_, [&]() -> std::shared_ptr<Engine> {
    nb::object function = helper("load_engine")(class_name_, folder.string(), threads);
    return std::make_shared<PythonEngine>(std::move(file), std::move(function));
  });
}

}  // namespace graphtune::python
