// What a run takes as the router starts it, from tensors to tensors that the caller owns. The
// engines are those of the engine tests (tests/cpp/engines/make_artifacts.py FOLDER):
// GRAPHTUNE_ENGINE_ARTIFACTS, else engine_artifacts in the build folder, where the tests leave
// them.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "graphtune/engines/registry.h"
#include "graphtune/error.h"
#include "graphtune/tensor.h"

namespace graphtune {
namespace {

std::filesystem::path artifacts_folder() {
  if (const char* given = std::getenv("GRAPHTUNE_ENGINE_ARTIFACTS")) {
    return given;
  }
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  return self.parent_path().parent_path() / "engine_artifacts";
}

void run_engine(benchmark::State& state, const char* backend, const char* model,
                const std::vector<Tensor>& inputs) {
  const std::filesystem::path folder = artifacts_folder() / model / backend;
  if (!std::filesystem::exists(folder)) {
    state.SkipWithError((folder.string() + " is not there: run the engine tests first").c_str());
    return;
  }
  try {
    const std::shared_ptr<Engine> engine = find_backend(backend).load(folder, {});
    std::vector<Tensor> outputs;
    engine->run(inputs, outputs);
    for (auto _ : state) {
      engine->run(inputs, outputs);
      benchmark::DoNotOptimize(outputs.data());
    }
  } catch (const Error& error) {
    state.SkipWithError(error.what());
  }
}

// Five tensors in, five out, and next to nothing to compute: the cost of a call itself.
void tiny(benchmark::State& state, const char* backend) {
  const std::int64_t batch = 2;
  const std::int64_t length = 8;
  run_engine(state, backend, "mixed",
             {Tensor::zeros(DType::Float32, {batch, length, 4}),
              Tensor::zeros(DType::Float32, {batch}), Tensor::zeros(DType::Int64, {batch, length}),
              Tensor::zeros(DType::Float32, {}), Tensor::zeros(DType::Bool, {batch, length})});
}

void minilm(benchmark::State& state, const char* backend) {
  Tensor ids = Tensor::zeros(DType::Int64, {state.range(0), state.range(1)});
  Tensor mask = Tensor::zeros(DType::Int64, {state.range(0), state.range(1)});
  for (std::int64_t i = 0; i < ids.element_count(); ++i) {
    ids.data_as<std::int64_t>()[i] = 1000 + i % 5000;
    mask.data_as<std::int64_t>()[i] = 1;
  }
  run_engine(state, backend, "minilm", {ids, mask});
}

BENCHMARK_CAPTURE(tiny, aoti, "aoti")->UseRealTime();
BENCHMARK_CAPTURE(tiny, onnxruntime, "onnxruntime")->UseRealTime();
BENCHMARK_CAPTURE(tiny, openvino, "openvino")->UseRealTime();
BENCHMARK_CAPTURE(minilm, aoti, "aoti")->Args({1, 8})->Args({8, 64})->UseRealTime();
BENCHMARK_CAPTURE(minilm, onnxruntime, "onnxruntime")->Args({1, 8})->Args({8, 64})->UseRealTime();
BENCHMARK_CAPTURE(minilm, openvino, "openvino")->Args({1, 8})->Args({8, 64})->UseRealTime();

}  // namespace
}  // namespace graphtune
