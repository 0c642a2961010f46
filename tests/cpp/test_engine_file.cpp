#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "graphtune/engines/engine_file.h"
#include "graphtune/error.h"

namespace graphtune {
namespace {

using testing::HasSubstr;

constexpr const char* kGood = R"({
  "format": 1, "backend": "aoti", "file": "model.pt2", "files": ["model.pt2"],
  "inputs": [{"index": 2, "name": "x", "dtype": "float32", "shape": ["s0", 4]},
             {"index": 0, "name": "y", "dtype": "int64", "shape": []}],
  "outputs": [{"result": 0, "dtype": "bool", "engine_dtype": "u8", "rank": 1},
              {"result": 0, "dtype": "bool", "engine_dtype": "u8", "rank": 1}],
  "ranges": {"s0": [1, 8]}, "options": {"A": "f32", "B": 2, "C": true}, "versions": {"torch": "2.13.0"}
})";

std::string edited(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_engine_file(text);
  } catch (const BundleError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(EngineFile, HoldsWhatTheBuildWrote) {
  const EngineFile file = parse_engine_file(kGood);
  EXPECT_EQ(file.backend, "aoti");
  EXPECT_EQ(file.file, "model.pt2");
  ASSERT_EQ(file.inputs.size(), 2);
  EXPECT_EQ(file.inputs[0].index, 2);
  EXPECT_EQ(file.inputs[0].dtype, DType::Float32);
  EXPECT_THAT(file.inputs[0].sizes, testing::ElementsAre(EngineFile::kAnySize, 4));
  EXPECT_TRUE(file.inputs[1].sizes.empty());
  ASSERT_EQ(file.outputs.size(), 2);
  EXPECT_EQ(file.outputs[1].result, 0);
  EXPECT_EQ(file.outputs[1].dtype, DType::Bool);
  EXPECT_EQ(file.tensor_count, 3);
  EXPECT_EQ(file.result_count, 1);
  EXPECT_EQ(file.options.at("A"), "f32");
  EXPECT_EQ(file.options.at("B"), "2");
  EXPECT_EQ(file.options.at("C"), "true");
  EXPECT_EQ(file.versions.at("torch"), "2.13.0");
}

TEST(EngineFile, ErrorsNameTheField) {
  EXPECT_THAT(error_of("{\"format\": 1,"), HasSubstr("malformed JSON at byte 14"));
  EXPECT_THAT(error_of("[]"), HasSubstr("(root): must be an object"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("malformed"));
  EXPECT_THAT(error_of(edited("\"format\": 1", "\"format\": 2")),
              HasSubstr("format: 2; this version"));
  EXPECT_THAT(error_of(edited("\"backend\": \"aoti\",", "")), HasSubstr("backend: missing"));
  EXPECT_THAT(error_of(edited("\"model.pt2\"", "7")), HasSubstr("file: must be a string"));
  EXPECT_THAT(error_of(edited("\"index\": 2", "\"index\": -2")),
              HasSubstr("inputs[0].index: must be in 0 .."));
  EXPECT_THAT(error_of(edited("\"index\": 2", "\"index\": 18446744073709551615")),
              HasSubstr("inputs[0].index"));
  EXPECT_THAT(error_of(edited("\"index\": 2", "\"index\": 2.5")),
              HasSubstr("inputs[0].index: must be an integer"));
  EXPECT_THAT(error_of(edited("int64", "int65")), HasSubstr("inputs[1].dtype: "));
  EXPECT_THAT(error_of(edited("\"s0\", 4", "\"s0\", -4")), HasSubstr("inputs[0].shape"));
  EXPECT_THAT(error_of(edited("\"rank\": 1", "\"rank\": 65")),
              HasSubstr("outputs[0].rank: must be in 0 .. 64"));
  EXPECT_THAT(error_of(edited("{\"torch\": \"2.13.0\"}", "2")),
              HasSubstr("versions: must be an object"));
}

TEST(EngineFile, ThreadsOfTheBuildHoldUnlessTheLoaderAsksForOthers) {
  EXPECT_EQ(parse_engine_file(kGood).thread_count(0), 0);
  EXPECT_EQ(parse_engine_file(kGood).thread_count(3), 3);
  const EngineFile file = parse_engine_file(edited("\"ranges\"", "\"threads\": 2, \"ranges\""));
  EXPECT_EQ(file.thread_count(0), 2);
  EXPECT_EQ(file.thread_count(3), 3);
  EXPECT_THAT(error_of(edited("\"ranges\"", "\"threads\": -1, \"ranges\"")),
              HasSubstr("threads: "));
}

TEST(EngineFile, SaysWhichDeviceItIsFor) {
  EXPECT_EQ(parse_engine_file(kGood).device_type, DeviceType::Cpu);
  const std::string cuda =
      edited("\"ranges\"", "\"built_for\": {\"device\": \"cuda\"}, \"ranges\"");
  EXPECT_EQ(parse_engine_file(cuda).device_type, DeviceType::Cuda);
  EXPECT_THAT(error_of(edited("\"ranges\"", "\"built_for\": {\"device\": \"abacus\"}, \"ranges\"")),
              HasSubstr("built_for.device: "));
}

TEST(EngineFile, FilesStayInTheFolder) {
  for (const char* name :
       {"../model.pt2", "/etc/passwd", "a/b", "..", ".", "a\\\\b", "a\\u0000b"}) {
    EXPECT_THAT(
        error_of(edited("\"file\": \"model.pt2\"", std::string("\"file\": \"") + name + "\"")),
        HasSubstr("is not the plain name of a file"));
  }
}

TEST(EngineFile, ReadsAFolder) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("graphtune_engine_file_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  EXPECT_THROW((void)read_engine_file(folder, "aoti"), BundleError);
  std::ofstream(folder / "engine.json") << kGood;
  EXPECT_THROW((void)read_engine_file(folder, "aoti"), BundleError);  // model.pt2 is missing
  std::ofstream(folder / "model.pt2") << "x";
  EXPECT_EQ(read_engine_file(folder, "aoti").path(), folder / "model.pt2");
  EXPECT_THROW((void)read_engine_file(folder, "openvino"), BundleError);
  std::filesystem::remove_all(folder);
}

TEST(EngineFile, ChecksTensors) {
  const EngineFile file = parse_engine_file(kGood);
  const Tensor x = Tensor::zeros(DType::Float32, {3, 4});
  const Tensor y = Tensor::zeros(DType::Int64, {});
  EXPECT_NO_THROW(file.check_inputs(std::vector<Tensor>{y, Tensor(), x}, DeviceType::Cpu));
  EXPECT_THROW(file.check_inputs(std::vector<Tensor>{y, x}, DeviceType::Cpu), EngineError);
  EXPECT_THROW(file.check_inputs(std::vector<Tensor>{x, Tensor(), y}, DeviceType::Cpu),
               EngineError);
  EXPECT_THROW(file.check_inputs(std::vector<Tensor>{y, Tensor(), x}, DeviceType::Cuda),
               EngineError);
  EXPECT_NO_THROW(file.check_output(0, DType::Bool, 1));
  EXPECT_THROW(file.check_output(0, DType::Bool, 2), EngineError);
  EXPECT_THROW(file.check_output(1, DType::UInt8, 1), EngineError);
}

}  // namespace
}  // namespace graphtune
