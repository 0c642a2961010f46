#include <algorithm>
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/artifacts.h"
#include "engines/process.h"
#include "graphtune/engines/registry.h"
#include "graphtune/error.h"

namespace graphtune::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class AotiEngine : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = reason_to_skip("aoti");
    if (!reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }
};

// The compiled code writes each exception to stderr itself, before it becomes ours.
struct QuietStderr {
  QuietStderr() { testing::internal::CaptureStderr(); }
  ~QuietStderr() { testing::internal::GetCapturedStderr(); }
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;
};

std::vector<Tensor> matrices(std::int64_t count, float diagonal) {
  Tensor tensor = Tensor::zeros(DType::Float32, {count, 3, 3});
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t k = 0; k < 3; ++k) {
      tensor.data_as<float>()[9 * i + 4 * k] = diagonal;
    }
  }
  return {tensor};
}

TEST_F(AotiEngine, LoadsNoPython) {
  const std::shared_ptr<Engine> engine = load_engine("mixed", "aoti");
  const std::string maps = loaded_libraries();
  EXPECT_THAT(maps, AllOf(HasSubstr("libtorch_cpu"), Not(HasSubstr("libpython")),
                          Not(HasSubstr("libtorch_python"))));
}

TEST_F(AotiEngine, ARunThatFailsIsOneLine) {
  const std::shared_ptr<Engine> engine = load_engine("cholesky", "aoti");
  const QuietStderr quiet;
  std::vector<Tensor> outputs;
  try {
    engine->run(matrices(2, -1), outputs);
    FAIL() << "nothing thrown";
  } catch (const EngineError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("engine 'aoti'"), Not(HasSubstr("\n"))));
    EXPECT_THAT(error.what(), HasSubstr("cholesky"));
  }
  const Cases stored = read_cases("cholesky");
  engine->run(stored.cases[0].inputs, outputs);
  expect_close(outputs, stored.cases[0].outputs, stored.tolerance, "after the failure");
}

TEST_F(AotiEngine, FailuresAmongManyThreadsHoldNobodyUp) {
  const std::shared_ptr<Engine> engine = load_engine("cholesky", "aoti");
  const std::size_t count = 2 * std::max<std::size_t>(8, 2 * std::thread::hardware_concurrency());
  const QuietStderr quiet;
  std::atomic<int> failed = 0;
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Tensor> outputs;
      for (std::size_t i = 0; i < 20; ++i) {
        const bool fails = (t + i) % 2 == 0;
        try {
          engine->run(matrices(2, fails ? -1.0F : 4.0F), outputs);
          good += *outputs.at(0).data_as<float>() == 2.0F ? 1 : 0;
        } catch (const EngineError&) {
          failed += fails ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failed, count * 10);
  EXPECT_EQ(good, count * 10);
}

TEST_F(AotiEngine, TakesDouble) {
  const Cases stored = read_cases("double");
  std::vector<Tensor> outputs;
  load_engine("double", "aoti")->run(stored.cases[0].inputs, outputs);
  expect_close(outputs, stored.cases[0].outputs, 1e-15, "double");
}

TEST_F(AotiEngine, OutputsThatShareMemoryStillShareIt) {
  const Cases stored = read_cases("alias");
  std::vector<Tensor> outputs;
  load_engine("alias", "aoti")->run(stored.cases[0].inputs, outputs);
  EXPECT_EQ(outputs[3].data(), outputs[5].data());  // y and y.t(), as in eager; nothing was copied
}

}  // namespace
}  // namespace graphtune::test
