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

[[noreturn]] void refuse(const std::string& field, std::string_view what) {
  throw BundleError(fmt::format("{}: {}: {}", EngineFile::kName, field, what));
}

const Json& member(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) {
    refuse(where.empty() ? key : fmt::format("{}.{}", where, key), "missing");
  }
  return *found;
}

std::string string_member(const Json& object, const char* key, const std::string& where = {}) {
  const Json& value = member(object, key, where);
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    refuse(where.empty() ? key : fmt::format("{}.{}", where, key),
           "must be a string that is not empty");
  }
  return value.get<std::string>();
}

std::int64_t integer_member(const Json& object, const char* key, const std::string& where,
                            std::int64_t max) {
  const Json& value = member(object, key, where);
  if (!value.is_number_integer()) {
    refuse(fmt::format("{}.{}", where, key), "must be an integer");
  }
  const bool too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(max);
  if (too_large || value.get<std::int64_t>() < 0) {
    refuse(fmt::format("{}.{}", where, key), fmt::format("must be in 0 .. {}", max));
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

int rank_member(const Json& object, const std::string& where) {
  const auto found = object.find("rank");
  if (found == object.end() || found->is_null()) {
    return EngineFile::kUnknownRank;
  }
  return static_cast<int>(integer_member(object, "rank", where, kMaxRank));
}

const Json& array_member(const Json& object, const char* key) {
  const Json& value = member(object, key, {});
  if (!value.is_array()) {
    refuse(key, "must be a list");
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
    refuse("file",
           fmt::format("'{}' is not the plain name of a file in the engine's folder", name));
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

std::string describe_rank(int rank) { return rank == 1 ? "1 axis" : fmt::format("{} axes", rank); }

}  // namespace

EngineFile parse_engine_file(std::string_view text) {
  Json root;
  try {
    root = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw BundleError(fmt::format("{}: malformed JSON at byte {}", EngineFile::kName, error.byte));
  }
  expect_object(root, "(root)");

  EngineFile file;
  file.backend = string_member(root, "backend");
  file.file = string_member(root, "file");
  check_file_name(file.file);

  const Json& inputs = array_member(root, "inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string where = fmt::format("inputs[{}]", i);
    expect_object(inputs[i], where);
    EngineFile::Input input;
    input.index = static_cast<std::size_t>(integer_member(inputs[i], "index", where, kMaxIndex));
    input.dtype = dtype_member(inputs[i], where);
    input.rank = rank_member(inputs[i], where);
    file.input_count = std::max(file.input_count, input.index + 1);
    file.inputs.push_back(input);
  }
  const Json& outputs = array_member(root, "outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string where = fmt::format("outputs[{}]", i);
    expect_object(outputs[i], where);
    file.outputs.push_back({dtype_member(outputs[i], where), rank_member(outputs[i], where)});
  }
  if (const auto versions = root.find("versions"); versions != root.end()) {
    expect_object(*versions, "versions");
    for (const auto& [name, version] : versions->items()) {
      if (!version.is_string()) {
        refuse("versions." + name, "must be a string");
      }
      file.versions.emplace(name, version.get<std::string>());
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
  if (tensors.size() < input_count) {
    throw EngineError(fmt::format("engine '{}': given {} tensors, it reads {}", backend,
                                  tensors.size(), input_count));
  }
  for (const Input& input : inputs) {
    const Tensor& tensor = tensors[input.index];
    if (tensor.dtype() != input.dtype || !tensor.defined()) {
      throw EngineError(fmt::format(
          "engine '{}': tensor {} is {}, it was built for {}", backend, input.index,
          tensor.defined() ? to_string(tensor.dtype()) : "undefined", to_string(input.dtype)));
    }
    if (input.rank != kUnknownRank &&
        tensor.sizes().size() != static_cast<std::size_t>(input.rank)) {
      throw EngineError(fmt::format(
          "engine '{}': tensor {} has {}, it was built for {}", backend, input.index,
          describe_rank(static_cast<int>(tensor.sizes().size())), describe_rank(input.rank)));
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

void EngineFile::check_output_count(std::size_t count) const {
  if (count != outputs.size()) {
    throw EngineError(fmt::format("engine '{}': gave {} outputs, its {} promises {}", backend,
                                  count, kName, outputs.size()));
  }
}

void EngineFile::check_output(std::size_t index, DType dtype, std::size_t rank) const {
  const Output& promised = outputs[index];
  if (dtype != promised.dtype) {
    throw EngineError(fmt::format("engine '{}': output {} is {}, its {} promises {}", backend,
                                  index, to_string(dtype), kName, to_string(promised.dtype)));
  }
  if (promised.rank != kUnknownRank && rank != static_cast<std::size_t>(promised.rank)) {
    throw EngineError(fmt::format("engine '{}': output {} has {}, its {} promises {}", backend,
                                  index, describe_rank(static_cast<int>(rank)), kName,
                                  describe_rank(promised.rank)));
  }
}

}  // namespace graphtune
