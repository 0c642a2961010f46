#include "graphtune/engines/engine_file.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graphtune/error.h"

namespace graphtune {
namespace {

using Json = nlohmann::json;

constexpr std::uintmax_t kMaxBytes = 16u << 20;
constexpr std::int64_t kMaxIndex = 1 << 24;
constexpr std::int64_t kMaxRank = 64;
constexpr std::int64_t kMaxThreads = 1 << 16;
constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 48;

[[noreturn]] void refuse(const std::string& field, std::string_view what) {
  throw BundleError(fmt::format("{}: {}: {}", EngineFile::kName, field, what));
}

std::string path_of(const std::string& where, const char* key) {
  return where.empty() ? key : fmt::format("{}.{}", where, key);
}

const Json& member(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) {
    refuse(path_of(where, key), "missing");
  }
  return *found;
}

std::string string_member(const Json& object, const char* key, const std::string& where = {}) {
  const Json& value = member(object, key, where);
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    refuse(path_of(where, key), "must be a string that is not empty");
  }
  return value.get<std::string>();
}

std::int64_t integer_member(const Json& object, const char* key, const std::string& where,
                            std::int64_t max) {
  const Json& value = member(object, key, where);
  if (!value.is_number_integer()) {
    refuse(path_of(where, key), "must be an integer");
  }
  const bool too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(max);
  if (too_large || value.get<std::int64_t>() < 0) {
    refuse(path_of(where, key), fmt::format("must be in 0 .. {}", max));
  }
  return value.get<std::int64_t>();
}

DType dtype_member(const Json& object, const std::string& where) {
  const std::string name = string_member(object, "dtype", where);
  try {
    return dtype_from_string(name);
  } catch (const ValueError& error) {
    refuse(where + ".dtype", error.what());
  }
}

const Json& array_member(const Json& object, const char* key, const std::string& where = {}) {
  const Json& value = member(object, key, where);
  if (!value.is_array()) {
    refuse(path_of(where, key), "must be a list");
  }
  return value;
}

void expect_object(const Json& value, const std::string& where) {
  if (!value.is_object()) {
    refuse(where, "must be an object");
  }
}

// The name is joined to the engine's folder: it must not lead out of it.
void check_file_name(const std::string& name) {
  const bool is_plain = name != "." && name != ".." && name.find('/') == std::string::npos &&
                        name.find('\\') == std::string::npos &&
                        name.find('\0') == std::string::npos;
  if (!is_plain) {
    refuse("file", fmt::format("{} is not the plain name of a file in the engine's folder",
                               Json(name).dump()));
  }
}

std::string read_text(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    throw BundleError(fmt::format("{}: {}. The folder does not hold an engine, or not all of it",
                                  path.string(), error.message()));
  }
  if (size > kMaxBytes) {
    throw BundleError(
        fmt::format("{}: {} bytes, more than any engine's description has", path.string(), size));
  }
  std::ifstream stream(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) {
    throw BundleError(fmt::format("{}: can't be read", path.string()));
  }
  return text;
}

EngineFile::Input parse_input(const Json& value, const std::string& where) {
  expect_object(value, where);
  EngineFile::Input input;
  input.index = static_cast<std::size_t>(integer_member(value, "index", where, kMaxIndex));
  input.dtype = dtype_member(value, where);
  const Json& shape = array_member(value, "shape", where);
  if (shape.size() > kMaxRank) {
    refuse(where + ".shape",
           fmt::format("{} axes, at most {} are possible", shape.size(), kMaxRank));
  }
  for (const Json& size : shape) {
    if (size.is_string()) {
      input.sizes.push_back(EngineFile::kAnySize);
    } else if (size.is_number_unsigned() && size.get<std::uint64_t>() <= kMaxSize) {
      input.sizes.push_back(size.get<std::int64_t>());
    } else {
      refuse(where + ".shape", "must hold sizes and names of symbols");
    }
  }
  return input;
}

EngineFile::Output parse_output(const Json& value, const std::string& where) {
  expect_object(value, where);
  EngineFile::Output output;
  output.result = static_cast<std::size_t>(integer_member(value, "result", where, kMaxIndex));
  output.dtype = dtype_member(value, where);
  output.rank = static_cast<std::size_t>(integer_member(value, "rank", where, kMaxRank));
  return output;
}

std::map<std::string, std::string> parse_texts(const Json& root, const char* key) {
  std::map<std::string, std::string> result;
  const auto found = root.find(key);
  if (found == root.end()) {
    return result;
  }
  expect_object(*found, key);
  for (const auto& [name, value] : found->items()) {
    result.emplace(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return result;
}

std::string describe_sizes(std::span<const std::int64_t> sizes) {
  std::string text = "(";
  for (const std::int64_t size : sizes) {
    text += size == EngineFile::kAnySize ? "any, " : fmt::format("{}, ", size);
  }
  text.resize(text.size() > 1 ? text.size() - 2 : 1);
  return text + ")";
}

}  // namespace

EngineFile parse_engine_file(std::string_view text) {
  Json root;
  try {
    root = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw BundleError(fmt::format("{}: malformed JSON at byte {}", EngineFile::kName, error.byte));
  }
  expect_object(root, "(root)");

  const std::int64_t format = integer_member(root, "format", {}, kMaxIndex);
  if (format != EngineFile::kFormat) {
    refuse("format",
           fmt::format("{}; this version of graphtune reads {}", format, EngineFile::kFormat));
  }

  EngineFile file;
  file.backend = string_member(root, "backend");
  file.file = string_member(root, "file");
  check_file_name(file.file);
  const Json& inputs = array_member(root, "inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    file.inputs.push_back(parse_input(inputs[i], fmt::format("inputs[{}]", i)));
    file.tensor_count = std::max(file.tensor_count, file.inputs.back().index + 1);
  }
  const Json& outputs = array_member(root, "outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    file.outputs.push_back(parse_output(outputs[i], fmt::format("outputs[{}]", i)));
    file.result_count = std::max(file.result_count, file.outputs.back().result + 1);
  }
  file.options = parse_texts(root, "options");
  file.versions = parse_texts(root, "versions");
  if (root.contains("threads")) {
    file.threads = static_cast<int>(integer_member(root, "threads", {}, kMaxThreads));
  }
  const std::map<std::string, std::string> built_for = parse_texts(root, "built_for");
  if (const auto device = built_for.find("device"); device != built_for.end()) {
    try {
      file.device_type = device_type_from_string(device->second);
    } catch (const ValueError& error) {
      refuse("built_for.device", error.what());
    }
  }
  return file;
}

EngineFile read_engine_file(const std::filesystem::path& folder, std::string_view backend) {
  const std::string text = read_text(folder / EngineFile::kName);
  EngineFile file;
  try {
    file = parse_engine_file(text);
  } catch (const BundleError& error) {
    throw BundleError(fmt::format("{}/{}", folder.string(), error.what()));
  }
  file.folder = folder;
  if (file.backend != backend) {
    throw BundleError(fmt::format("{}/{}: built by backend '{}', loaded by '{}'", folder.string(),
                                  EngineFile::kName, file.backend, backend));
  }
  std::error_code error;
  if (!std::filesystem::exists(file.path(), error)) {
    throw BundleError(
        fmt::format("{}: missing, though {} names it", file.path().string(), EngineFile::kName));
  }
  return file;
}

void EngineFile::check_inputs(std::span<const Tensor> tensors, DeviceType device) const {
  if (tensors.size() < tensor_count) {
    throw EngineError(fmt::format("engine '{}': given {} tensors, it reads {}", backend,
                                  tensors.size(), tensor_count));
  }
  for (const Input& input : inputs) {
    const Tensor& tensor = tensors[input.index];
    if (!tensor.defined() || tensor.dtype() != input.dtype) {
      throw EngineError(fmt::format(
          "engine '{}': tensor {} is {}, it was built for {}", backend, input.index,
          tensor.defined() ? to_string(tensor.dtype()) : "undefined", to_string(input.dtype)));
    }
    const bool fits = std::equal(tensor.sizes().begin(), tensor.sizes().end(), input.sizes.begin(),
                                 input.sizes.end(), [](std::int64_t given, std::int64_t built) {
                                   return given == built || (built == kAnySize && given >= 0);
                                 });
    if (!fits) {
      throw EngineError(fmt::format("engine '{}': tensor {} has sizes {}, it was built for {}",
                                    backend, input.index, describe_sizes(tensor.sizes().span()),
                                    describe_sizes(input.sizes)));
    }
    if (tensor.device() != device) {
      throw EngineError(fmt::format("engine '{}': tensor {} is on {}, it was built for {}", backend,
                                    input.index, to_string(tensor.device()), to_string(device)));
    }
    if (!tensor.view().is_contiguous()) {
      throw EngineError(
          fmt::format("engine '{}': tensor {} is not contiguous; pass tensor.contiguous()", backend,
                      input.index));
    }
  }
}

void EngineFile::check_output(std::size_t index, DType dtype, std::size_t rank) const {
  const Output& promised = outputs[index];
  if (dtype != promised.dtype || rank != promised.rank) {
    throw EngineError(fmt::format(
        "engine '{}': output {} is {} of rank {}, its {} promises {} of rank {}", backend, index,
        to_string(dtype), rank, kName, to_string(promised.dtype), promised.rank));
  }
}

}  // namespace graphtune
