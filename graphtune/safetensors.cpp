#include "graphtune/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graphtune/constant.h"
#include "graphtune/error.h"
#include "graphtune/file.h"
#include "graphtune/json_view.h"
#include "graphtune/utf8.h"

namespace graphtune {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kSizeBytes = sizeof(std::uint64_t);
// As in the reference implementation, so that every file that it reads is read here.
constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::size_t kMaxRank = 1024;

struct DTypeName {
  DType dtype;
  std::string_view name;
};

constexpr std::array kDTypes = std::to_array<DTypeName>({
    {DType::Bool, "BOOL"},
    {DType::UInt8, "U8"},
    {DType::Int8, "I8"},
    {DType::Int16, "I16"},
    {DType::UInt16, "U16"},
    {DType::Float16, "F16"},
    {DType::BFloat16, "BF16"},
    {DType::Int32, "I32"},
    {DType::UInt32, "U32"},
    {DType::Float32, "F32"},
    {DType::Float64, "F64"},
    {DType::Int64, "I64"},
    {DType::UInt64, "U64"},
    {DType::Complex64, "C64"},
    {DType::Float8E5M2, "F8_E5M2"},
    {DType::Float8E4M3FN, "F8_E4M3"},
    {DType::Float8E5M2FNUZ, "F8_E5M2FNUZ"},
    {DType::Float8E4M3FNUZ, "F8_E4M3FNUZ"},
    {DType::Float8E8M0FNU, "F8_E8M0"},
});

struct Entry {
  std::string name;
  DType dtype;
  Dims sizes;
  std::size_t begin;
  std::size_t end;
};

DType read_dtype(const JsonView& json) {
  const std::string& name = json.string();
  for (const DTypeName& known : kDTypes) {
    if (known.name == name) {
      return known.dtype;
    }
  }
  json.fail(fmt::format("the dtype {} is unknown", python_repr(cut_utf8(name, 40))));
}

Dims read_shape(const JsonView& json) {
  if (json.size() > kMaxRank) {
    json.fail(fmt::format("more than {} dimensions", kMaxRank));
  }
  std::vector<std::int64_t> sizes;
  sizes.reserve(json.size());
  for (const JsonView& size : json.items()) {
    sizes.push_back(size.integer(0, std::numeric_limits<std::int64_t>::max()));
  }
  return {std::span<const std::int64_t>(sizes)};
}

Entry read_entry(const std::string& name, const JsonView& json, std::size_t data_size) {
  json.allow_only({"dtype", "shape", "data_offsets"});
  Entry entry{name, read_dtype(json.at("dtype")), read_shape(json.at("shape")), 0, 0};
  const JsonView offsets = json.at("data_offsets");
  if (offsets.size() != 2) {
    offsets.fail("expected the begin and the end");
  }
  const auto limit = static_cast<std::int64_t>(data_size);
  entry.begin = static_cast<std::size_t>(offsets.at(0).integer(0, limit));
  entry.end = static_cast<std::size_t>(
      offsets.at(1).integer(static_cast<std::int64_t>(entry.begin), limit));
  std::size_t bytes = 0;
  try {
    bytes = contiguous_byte_size(entry.dtype, entry.sizes.span());
  } catch (const ValueError& error) {
    json.fail(error.what());
  }
  if (entry.end - entry.begin != bytes) {
    offsets.fail(fmt::format("{} bytes for a tensor that has {}", entry.end - entry.begin, bytes));
  }
  return entry;
}

/// Entries in the order of the data, which they fill without gap or overlap.
std::vector<Entry> read_header(std::string_view text, std::size_t data_size, TextMap* metadata) {
  // The format says so: a file of another kind is recognised here at the latest.
  if (text.empty() || text.front() != '{') {
    throw ValueError("the header does not begin with {");
  }
  const Json header = parse_json(text, "the header");
  std::vector<Entry> entries;
  for (const auto& [name, value] : JsonView(header).members()) {
    if (name != kMetadata) {
      entries.push_back(read_entry(name, value, data_size));
      continue;
    }
    for (const auto& [key, item] : value.members()) {
      const std::string& content = item.string(kMaxHeader);
      if (metadata != nullptr) {
        metadata->emplace(key, content);
      }
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::size_t position = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != position) {
      throw ValueError(fmt::format("the data of {} begin at {}, the tensor before ends at {}",
                                   python_repr(cut_utf8(entry.name, 80)), entry.begin, position));
    }
    position = entry.end;
  }
  if (position != data_size) {
    throw ValueError(fmt::format("{} bytes of data, but the tensors have {}", data_size, position));
  }
  return entries;
}

Tensor tensor_of(const Entry& entry, const Tensor& data) {
  auto* bytes = static_cast<std::byte*>(data.data()) + entry.begin;
  const std::size_t size = entry.end - entry.begin;
  if (entry.dtype == DType::Bool &&
      std::any_of(bytes, bytes + size, [](std::byte b) { return b > std::byte{1}; })) {
    // As a C++ bool, another byte is undefined behaviour for whoever reads it.
    throw ValueError(fmt::format("{} is of BOOL but has bytes other than 0 and 1",
                                 python_repr(cut_utf8(entry.name, 80))));
  }
  const std::size_t alignment = std::min<std::size_t>(item_size(entry.dtype), 8);
  if (reinterpret_cast<std::uintptr_t>(bytes) % alignment == 0) {
    return {bytes, entry.dtype, entry.sizes, contiguous_strides(entry.sizes.span()), data.owner()};
  }
  // The format does not align tensors, its writers do.
  Tensor aligned = Tensor::empty(entry.dtype, entry.sizes);
  std::memcpy(aligned.data(), bytes, size);
  return aligned;
}

/// `source` gives the file's bytes, one piece after the other.
template <typename Source>
std::vector<NamedTensor> read_tensors(std::uint64_t file_size, TextMap* metadata, Source&& source) {
  if (file_size < kSizeBytes) {
    throw ValueError(
        fmt::format("only {} bytes: a file begins with the size of its header", file_size));
  }
  std::uint64_t header_size = 0;
  source(&header_size, kSizeBytes);
  if (header_size > kMaxHeader || header_size > file_size - kSizeBytes) {
    throw ValueError(fmt::format("a header of {} bytes in a file of {} (at most {} are allowed)",
                                 header_size, file_size, kMaxHeader));
  }
  std::string header(static_cast<std::size_t>(header_size), '\0');
  source(header.data(), header.size());
  const auto data_size = static_cast<std::size_t>(file_size - kSizeBytes - header_size);
  TextMap texts;
  const std::vector<Entry> entries = read_header(header, data_size, &texts);
  const Tensor data = Tensor::empty(DType::UInt8, {static_cast<std::int64_t>(data_size)});
  source(data.data(), data_size);
  std::vector<NamedTensor> tensors;
  tensors.reserve(entries.size());
  for (const Entry& entry : entries) {
    tensors.emplace_back(entry.name, tensor_of(entry, data));
  }
  if (metadata != nullptr) {
    *metadata = std::move(texts);
  }
  return tensors;
}

[[noreturn]] void throw_damaged(std::string_view what, const ValueError& error) {
  throw BundleError(fmt::format("{} is no valid safetensors file: {}", what, error.what()));
}

}  // namespace

std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path, TextMap* metadata) {
  InputFile file(path);
  try {
    return read_tensors(file.size(), metadata,
                        [&file](void* data, std::size_t size) { file.read(data, size); });
  } catch (const ValueError& error) {
    throw_damaged(path.string(), error);
  }
}

std::vector<NamedTensor> parse_safetensors(std::span<const std::byte> bytes, std::string_view what,
                                           TextMap* metadata) {
  std::size_t position = 0;
  try {
    return read_tensors(bytes.size(), metadata, [&](void* data, std::size_t size) {
      if (size > 0) {
        std::memcpy(data, bytes.data() + position, size);
        position += size;
      }
    });
  } catch (const ValueError& error) {
    throw_damaged(what, error);
  }
}

namespace {

std::string_view name_of(const NamedTensor& tensor) {
  for (const DTypeName& known : kDTypes) {
    if (known.dtype == tensor.second.dtype()) {
      return known.name;
    }
  }
  throw ValueError(fmt::format("{} is of {}, which safetensors files can't hold",
                               python_repr(tensor.first), to_string(tensor.second.dtype())));
}

void check_writable(std::span<const NamedTensor> tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    const std::string shown = python_repr(cut_utf8(name, 80));
    if (name == kMetadata || !is_utf8(name)) {
      throw ValueError(
          fmt::format("{} can't be the name of a tensor in a safetensors file", shown));
    }
    if (!names.insert(name).second) {
      throw ValueError(fmt::format("two tensors are named {}", shown));
    }
    if (!tensor.defined() || tensor.device() != DeviceType::Cpu) {
      throw ValueError(fmt::format("{} is {}: only tensors on the CPU can be written", shown,
                                   tensor.defined() ? "on another device" : "undefined"));
    }
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const TextMap& metadata) {
  check_writable(tensors);
  // Larger elements first, as the reference implementation does: so all of them are aligned.
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return item_size(tensors[a].second.dtype()) > item_size(tensors[b].second.dtype());
  });
  Json header = Json::object();
  std::size_t offset = 0;
  for (const std::size_t i : order) {
    const Tensor& tensor = tensors[i].second;
    const std::size_t end = offset + tensor.byte_size();
    header[tensors[i].first] = {
        {"dtype", name_of(tensors[i])},
        {"shape", std::vector<std::int64_t>(tensor.sizes().begin(), tensor.sizes().end())},
        {"data_offsets", {offset, end}}};
    offset = end;
  }
  for (const auto& [key, text] : metadata) {
    if (!is_utf8(key) || !is_utf8(text)) {
      throw ValueError(fmt::format("the metadata {} is no UTF-8", python_repr(cut_utf8(key, 80))));
    }
    header[std::string(kMetadata)][key] = text;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns the data
  if (text.size() > kMaxHeader) {
    throw ValueError(
        fmt::format("a header of {} bytes: safetensors files allow {}", text.size(), kMaxHeader));
  }
  OutputFile file(path);
  const std::uint64_t header_size = text.size();
  file.write(&header_size, sizeof header_size);
  file.write(text);
  for (const std::size_t i : order) {
    const Tensor tensor = tensors[i].second.contiguous();
    file.write(tensor.data(), tensor.byte_size());
  }
  file.commit();
}

}  // namespace graphtune
