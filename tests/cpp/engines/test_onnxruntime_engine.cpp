#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/artifacts.h"
#include "graphtune/engines/cuda_device.h"
#include "graphtune/engines/registry.h"
#include "graphtune/error.h"

namespace graphtune::test {
namespace {

using testing::HasSubstr;

class OnnxRuntimeEngine : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = reason_to_skip("onnxruntime");
    if (!reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }
};

/// What loading the engine with these options (JSON) says, or how its first case went.
std::string outcome(const std::string& options) {
  const DamagedEngine changed("attention", "onnxruntime");
  changed.edit("\"options\": {}", "\"options\": " + options);
  const Cases stored = read_cases("attention");
  std::vector<Tensor> outputs;
  try {
    find_backend("onnxruntime").load(changed.folder(), {})->run(stored.cases[0].inputs, outputs);
  } catch (const EngineError& error) {
    return error.what();
  }
  expect_close(outputs, stored.cases[0].outputs, stored.tolerance, options);
  return "ran";
}

TEST_F(OnnxRuntimeEngine, TakesOptionsOfTheBuild) {
  for (const char* level : {"none", "basic", "extended", "all"}) {
    EXPECT_EQ(outcome(std::string("{\"graph_optimization\": \"") + level + "\"}"), "ran");
  }
  EXPECT_EQ(outcome("{\"providers\": \"CPU\", \"session.intra_op.allow_spinning\": \"0\"}"), "ran");
}

TEST_F(OnnxRuntimeEngine, OptionsThatItDoesNotKnowAreNamed) {
  EXPECT_THAT(outcome("{\"graph_optimization\": \"most\"}"), HasSubstr("'most' is none of none"));
  EXPECT_THAT(outcome("{\"providers\": \"CPU,Abacus\"}"),
              HasSubstr("provider 'Abacus' is none of"));
  EXPECT_THAT(outcome("{\"CUDA.device_id\": \"0\"}"), HasSubstr("CUDA.device_id is of a provider"));
}

TEST_F(OnnxRuntimeEngine, AProviderThatIsNotHereIsTheReason) {
  const std::string expected =
      cuda_unavailable_reason().empty() ? "ExecutionProvider" : cuda_unavailable_reason();
  for (const char* providers : {"CUDA", "TensorRT", "TensorRT,CUDA,CPU"}) {
    const std::map<std::string, std::string> options = {{"providers", providers}};
    const std::string reason = find_backend("onnxruntime").unavailable_reason_for(options);
    if (reason.empty()) {
      GTEST_SKIP() << "there is a GPU, and a runtime for it";
    }
    EXPECT_THAT(reason, HasSubstr(expected));
    EXPECT_EQ(backend_info("onnxruntime", options).unavailable_reason, reason);
    EXPECT_THAT(outcome(std::string("{\"providers\": \"") + providers + "\"}"), HasSubstr(reason));
  }
  EXPECT_EQ(find_backend("onnxruntime").unavailable_reason_for({{"providers", "CPU"}}), "");
}

TEST_F(OnnxRuntimeEngine, TakesTensorsOfTheCpuOnly) {
  const DamagedEngine changed("attention", "onnxruntime");
  changed.edit("\"options\": {}", "\"options\": {}, \"built_for\": {\"device\": \"cuda\"}");
  try {
    (void)find_backend("onnxruntime").load(changed.folder(), {});
    FAIL() << "nothing thrown";
  } catch (const EngineError& error) {
    EXPECT_THAT(error.what(), HasSubstr("was built for cuda"));
  }
}

}  // namespace
}  // namespace graphtune::test
