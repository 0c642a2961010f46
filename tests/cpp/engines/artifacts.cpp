#include "engines/artifacts.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "graphtune/engines/registry.h"

namespace graphtune::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

fs::path build_folder() { return fs::read_symlink("/proc/self/exe").parent_path().parent_path(); }
// Compilers are given this file's path whole, or relative to the build folder.
fs::path source_folder() { return (build_folder() / __FILE__).lexically_normal().parent_path(); }

std::string python() {
  if (const char* given = std::getenv("GRAPHTUNE_TEST_PYTHON")) {
    return given;
  }
  const fs::path in_tree = source_folder() / "../../../.venv/bin/python";
  return fs::exists(in_tree) ? in_tree.string() : "python3";
}

fs::path make_artifacts() {
  const fs::path folder = build_folder() / "engine_artifacts";
  const fs::path log = build_folder() / ("engine_artifacts_" + std::to_string(getpid()) + ".log");
  const std::string command = "\"" + python() + "\" \"" +
                              (source_folder() / "make_artifacts.py").string() + "\" \"" +
                              folder.string() + "\" > \"" + log.string() + "\" 2>&1";
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error("make_artifacts.py failed, see " + log.string());
  }
  fs::remove(log);
  return folder;
}

Json read_json(const fs::path& path) {
  std::ifstream stream(path);
  if (!stream) {
    throw std::runtime_error(path.string() + " can't be read");
  }
  return Json::parse(stream);
}

Tensor read_tensor(const Json& entry, std::ifstream& data) {
  const auto sizes = entry.at("sizes").get<std::vector<std::int64_t>>();
  Tensor tensor =
      Tensor::empty(dtype_from_string(entry.at("dtype").get<std::string>()), Dims(sizes));
  data.seekg(entry.at("offset").get<std::streamoff>());
  data.read(static_cast<char*>(tensor.data()), static_cast<std::streamsize>(tensor.byte_size()));
  if (!data) {
    throw std::runtime_error("data.bin ends too early");
  }
  return tensor;
}

float half_to_float(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0x1f) {
    return mantissa != 0 ? NAN : sign * INFINITY;
  }
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                               : std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25));
}

float bfloat_to_float(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

double element(const Tensor& tensor, std::size_t i) {
  const void* data = tensor.data();
  switch (tensor.dtype()) {
    case DType::Bool:
    case DType::UInt8:
      return static_cast<const std::uint8_t*>(data)[i];
    case DType::Int8:
      return static_cast<const std::int8_t*>(data)[i];
    case DType::Int16:
      return static_cast<const std::int16_t*>(data)[i];
    case DType::Int32:
      return static_cast<const std::int32_t*>(data)[i];
    case DType::Int64:
      return static_cast<double>(static_cast<const std::int64_t*>(data)[i]);
    case DType::Float16:
      return half_to_float(static_cast<const std::uint16_t*>(data)[i]);
    case DType::BFloat16:
      return bfloat_to_float(static_cast<const std::uint16_t*>(data)[i]);
    case DType::Float32:
      return static_cast<const float*>(data)[i];
    case DType::Float64:
      return static_cast<const double*>(data)[i];
    default:
      throw std::runtime_error("dtype is not covered by this test");
  }
}

}  // namespace

const fs::path& artifacts_folder() {
  static const fs::path folder = make_artifacts();
  return folder;
}

std::string reason_to_skip(const std::string& backend) {
  if (!fs::exists(build_folder() / "lib" / ("libgraphtune_engine_" + backend + ".so"))) {
    return "this build has no engine " + backend + ": its runtime was not found";
  }
  return read_json(artifacts_folder() / "backends.json").at(backend).get<std::string>();
}

fs::path engine_folder(const std::string& model, const std::string& backend) {
  return artifacts_folder() / model / backend;
}

std::shared_ptr<Engine> load_engine(const std::string& model, const std::string& backend,
                                    const EngineOptions& options) {
  return find_backend(backend).load(engine_folder(model, backend), options);
}

Cases read_cases(const std::string& model) {
  const fs::path folder = artifacts_folder() / model;
  const Json root = read_json(folder / "cases.json");
  std::ifstream data(folder / "data.bin", std::ios::binary);
  Cases result;
  result.tolerance = root.at("tolerance").get<double>();
  for (const Json& entry : root.at("cases")) {
    Case& added = result.cases.emplace_back();
    for (const Json& tensor : entry.at("inputs")) {
      added.inputs.push_back(read_tensor(tensor, data));
    }
    for (const Json& tensor : entry.at("outputs")) {
      added.outputs.push_back(read_tensor(tensor, data));
    }
  }
  return result;
}

DamagedEngine::DamagedEngine(const std::string& model, const std::string& backend)
    : folder_(fs::temp_directory_path() / ("graphtune_engine_" + std::to_string(getpid()))) {
  fs::remove_all(folder_);
  fs::copy(engine_folder(model, backend), folder_);
}

DamagedEngine::~DamagedEngine() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void DamagedEngine::edit(const std::string& from, const std::string& to) const {
  const fs::path path = folder_ / "engine.json";
  std::ifstream in(path);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::size_t at = text.find(from);
  if (at == std::string::npos) {
    throw std::runtime_error("engine.json does not hold " + from);
  }
  text.replace(at, from.size(), to);
  std::ofstream(path) << text;
}

void expect_close(const Tensor& actual, const Tensor& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(to_string(actual.dtype()), to_string(expected.dtype())) << what;
  const std::vector<std::int64_t> actual_sizes(actual.sizes().begin(), actual.sizes().end());
  const std::vector<std::int64_t> expected_sizes(expected.sizes().begin(), expected.sizes().end());
  ASSERT_EQ(actual_sizes, expected_sizes) << what;
  const Tensor dense = actual.contiguous();
  for (std::size_t i = 0; i < static_cast<std::size_t>(dense.element_count()); ++i) {
    const double a = element(dense, i);
    const double e = element(expected, i);
    ASSERT_NEAR(a, e, tolerance * (1 + std::abs(e))) << what << ", element " << i;
  }
}

void expect_close(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected,
                  double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    expect_close(actual[i], expected[i], tolerance, what + ", output " + std::to_string(i));
  }
}

std::vector<char> bytes_of(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  const auto* data = static_cast<const char*>(dense.data());
  return {data, data + dense.byte_size()};
}

}  // namespace graphtune::test
