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

class OpenVinoEngine : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = reason_to_skip("openvino");
    if (!reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }
};

std::string load_error(const std::filesystem::path& folder) {
  try {
    (void)find_backend("openvino").load(folder, {});
  } catch (const EngineError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST_F(OpenVinoEngine, LoadsNoPythonAndNoTorch) {
  const std::shared_ptr<Engine> engine = load_engine("mixed", "openvino");
  const std::string libraries = loaded_libraries();
  EXPECT_THAT(libraries, AllOf(HasSubstr("libopenvino"), Not(HasSubstr("libpython"))));
}

TEST_F(OpenVinoEngine, RefusesIntegersThatItWouldWrap) {
  const std::shared_ptr<Engine> engine = load_engine("mixed", "openvino");
  const Cases stored = read_cases("mixed");
  std::vector<Tensor> inputs = stored.cases[0].inputs;
  inputs[2] = Tensor::zeros(DType::Int64, inputs[2].sizes());
  std::vector<Tensor> outputs;
  for (const std::int64_t value : {std::int64_t{2147483647}, std::int64_t{-2147483648}}) {
    inputs[2].data_as<std::int64_t>()[3] = value;
    EXPECT_NO_THROW(engine->run(inputs, outputs));
  }
  for (const std::int64_t value :
       {std::int64_t{1} << 31, -(std::int64_t{1} << 31) - 1, std::int64_t{1} << 40}) {
    inputs[2].data_as<std::int64_t>()[3] = value;
    try {
      engine->run(inputs, outputs);
      FAIL() << "nothing thrown for " << value;
    } catch (const EngineError& error) {
      EXPECT_THAT(error.what(), HasSubstr("tensor 2 holds " + std::to_string(value)));
    }
  }
}

TEST_F(OpenVinoEngine, RefusesDouble) {
  EXPECT_THAT(load_error(engine_folder("double", "openvino")), HasSubstr("computes as float32"));
}

TEST_F(OpenVinoEngine, PortsMustBeWhatTheBuildSays) {
  const DamagedEngine damaged("attention", "openvino");
  damaged.edit("\"int64\"", "\"int32\"");
  EXPECT_THAT(load_error(damaged.folder()),
              AllOf(HasSubstr("input 0"), HasSubstr("i64"), HasSubstr("says int32")));
}

TEST_F(OpenVinoEngine, ResultsAreConvertedToTheGraphsType) {
  const DamagedEngine damaged("mixed", "openvino");
  damaged.edit("\"result\": 1,\n   \"dtype\": \"int64\"",
               "\"result\": 1,\n   \"dtype\": \"int32\"");
  const Cases stored = read_cases("mixed");
  std::vector<Tensor> outputs;
  find_backend("openvino").load(damaged.folder(), {})->run(stored.cases[0].inputs, outputs);
  ASSERT_EQ(outputs[1].dtype(), DType::Int32);
  for (std::int64_t i = 0; i < outputs[1].element_count(); ++i) {
    EXPECT_EQ(outputs[1].data_as<std::int32_t>()[i],
              stored.cases[0].outputs[1].data_as<std::int64_t>()[i]);
  }
}

TEST_F(OpenVinoEngine, AnUnknownOptionIsAnErrorOfTheEngine) {
  const DamagedEngine damaged("attention", "openvino");
  damaged.edit("\"options\": {}", "\"options\": {\"NO_SUCH_OPTION\": 3}");
  EXPECT_THAT(load_error(damaged.folder()),
              AllOf(HasSubstr("NO_SUCH_OPTION"), Not(HasSubstr("\n"))));
}

TEST_F(OpenVinoEngine, TakesOptionsOfTheBuild) {
  const DamagedEngine changed("attention", "openvino");
  changed.edit("\"options\": {}",
               "\"options\": {\"ENABLE_CPU_PINNING\": false, \"INFERENCE_NUM_THREADS\": 1, "
               "\"INFERENCE_PRECISION_HINT\": \"f32\"}");
  const Cases stored = read_cases("attention");
  std::vector<Tensor> outputs;
  find_backend("openvino").load(changed.folder(), {})->run(stored.cases[0].inputs, outputs);
  expect_close(outputs, stored.cases[0].outputs, stored.tolerance, "with options");
}

TEST_F(OpenVinoEngine, WritesNoCache) {
  const DamagedEngine damaged("attention", "openvino");
  const std::filesystem::path cache = damaged.folder() / "cache";
  damaged.edit("\"options\": {}", "\"options\": {\"CACHE_DIR\": \"" + cache.string() + "\"}");
  EXPECT_NE(find_backend("openvino").load(damaged.folder(), {}), nullptr);
  EXPECT_FALSE(std::filesystem::exists(cache));
}

}  // namespace
}  // namespace graphtune::test
