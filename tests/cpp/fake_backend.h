#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "graphtune/engines/engine.h"
#include "graphtune/engines/registry.h"
#include "graphtune/error.h"

namespace graphtune::test {

/// y = factor * x, as float32, for each input that `outputs` lists; with a factor of 0 the very
/// input, which no engine should give.
class FakeEngine : public Engine {
 public:
  FakeEngine(double factor, std::vector<std::size_t> outputs, std::string failure = {})
      : factor_(factor), outputs_(std::move(outputs)), failure_(std::move(failure)) {}

  [[nodiscard]] std::string_view backend() const noexcept override { return "fake"; }

  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) override {
    ++calls;
    if (!failure_.empty()) {
      throw EngineError(failure_);
    }
    outputs.clear();
    for (const std::size_t index : outputs_) {
      const Tensor& input = inputs[index];
      if (!input.view().is_contiguous()) {
        throw EngineError("an input is not contiguous");
      }
      if (factor_ == 0) {
        outputs.push_back(input);
        continue;
      }
      Tensor output = Tensor::empty(DType::Float32, input.sizes());
      for (std::int64_t i = 0; i < input.element_count(); ++i) {
        const double x = input.dtype() == DType::Int64
                             ? static_cast<double>(input.data_as<std::int64_t>()[i])
                             : static_cast<double>(input.data_as<float>()[i]);
        output.data_as<float>()[i] = static_cast<float>(factor_ * x);
      }
      outputs.push_back(std::move(output));
    }
  }

  std::atomic<int> calls = 0;

 private:
  double factor_;
  std::vector<std::size_t> outputs_;
  std::string failure_;
};

/// Loads FakeEngines from an engine.json such as {"factor": 2, "outputs": [0]}.
class FakeBackend : public Backend {
 public:
  explicit FakeBackend(std::string name = "fake", std::string unavailable = {})
      : name_(std::move(name)), unavailable_(std::move(unavailable)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::string version() const override { return "fake 1.0"; }
  [[nodiscard]] std::string unavailable_reason() const override { return unavailable_; }
  [[nodiscard]] bool loads_native_code() const noexcept override { return false; }
  [[nodiscard]] std::shared_ptr<Engine> load(const std::filesystem::path& folder,
                                             const EngineOptions& options) override {
    if (!unavailable_.empty()) {
      throw EngineError(unavailable_);
    }
    ++loads;
    last_threads = options.threads;
    std::ifstream file(folder / "engine.json");
    const auto json = nlohmann::json::parse(file);
    if (json.contains("broken")) {
      throw EngineError(json["broken"].get<std::string>());
    }
    return std::make_shared<FakeEngine>(json.at("factor").get<double>(),
                                        json.at("outputs").get<std::vector<std::size_t>>(),
                                        json.value("failure", ""));
  }

  std::atomic<int> loads = 0;  ///< that were tried
  std::atomic<int> last_threads = -1;

 private:
  std::string name_;
  std::string unavailable_;
};

}  // namespace graphtune::test
