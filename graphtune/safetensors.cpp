#include "graphtune/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graphtune/error.h"

namespace graphtune {
namespace {

static_assert(std::endian::native == std::endian::little, "data is read as it lies in the file");

using Json = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;
// The limit of the format's reference implementation.
constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::size_t kMaxRank = 64;  // torch's own limit

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array kTypes{
    TypeName{DType::Bool, "BOOL"},
    TypeName{DType::UInt8, "U8"},
    TypeName{DType::Int8, "I8"},
    TypeName{DType::Float8E5M2, "F8_E5M2"},
    TypeName{DType::Float8E4M3FN, "F8_E4M3"},
    TypeName{DType::Int16, "I16"},
    TypeName{DType::UInt16, "U16"},
    TypeName{DType::Float16, "F16"},
    TypeName{DType::BFloat16, "BF16"},
    TypeName{DType::Int32, "I32"},
    TypeName{DType::UInt32, "U32"},
    TypeName{DType::Float32, "F32"},
    TypeName{DType::Float64, "F64"},
    TypeName{DType::Int64, "I64"},
    TypeName{DType::UInt64, "U64"},
    TypeName{DType::Complex64, "C64"},
};

std::optional<DType> dtype_of(std::string_view name) {
  for (const TypeName& type : kTypes) {
    if (type.name == name) {
      return type.dtype;
    }
  }
  return std::nullopt;
}

std::string_view name_of(DType dtype, const std::string& tensor) {
  for (const TypeName& type : kTypes) {
    if (type.dtype == dtype) {
      return type.name;
    }
  }
  throw ValueError(
      fmt::format("tensor '{}': safetensors has no type for {}", tensor, to_string(dtype)));
}

/// Where a tensor's bytes lie in the data section.
struct Entry {
  std::string name;
  DType dtype = DType::Float32;
  std::vector<std::int64_t> sizes;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class Parser {
 public:
  Parser(std::string_view bytes, std::string source) : bytes_(bytes), source_(std::move(source)) {}

  /// Checked entries in the order of their data.
  std::vector<Entry> parse() {
    const std::string_view header = read_header();
    data_size_ = bytes_.size() - kLengthBytes - header.size();
    const Json json = parse_json(header);
    if (!json.is_object()) {
      fail("the header is no JSON object");
    }
    std::vector<Entry> entries;
    for (const auto& [name, value] : json.items()) {
      if (name != "__metadata__") {
        entries.push_back(parse_entry(name, value));
      }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    check_gapless(entries);
    return entries;
  }

  [[nodiscard]] std::uint64_t data_offset() const { return bytes_.size() - data_size_; }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw ValueError(fmt::format("{}: {}", source_, what));
  }

  std::string_view read_header() const {
    if (bytes_.size() < kLengthBytes) {
      fail(
          fmt::format("it has {} bytes, which is too short for a safetensors file", bytes_.size()));
    }
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    if (length > kMaxHeader || length > bytes_.size() - kLengthBytes) {
      fail(fmt::format("its header claims {} bytes, which the file of {} bytes does not hold",
                       length, bytes_.size()));
    }
    return bytes_.substr(kLengthBytes, length);
  }

  Json parse_json(std::string_view header) const {
    // Depth and doubled names are seen while parsing: the parser itself would recurse, and keep the
    // last of two.
    std::set<std::string> names;
    bool doubled = false;
    const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (depth > 4) {
        fail("its header is nested too deep");
      }
      if (event == Json::parse_event_t::key && depth == 1) {
        doubled = doubled || !names.insert(parsed.get<std::string>()).second;
      }
      return true;
    };
    try {
      Json json = Json::parse(header.begin(), header.end(), watch);
      if (doubled) {
        fail("its header names a tensor twice");
      }
      return json;
    } catch (const Json::exception& error) {
      fail(fmt::format("its header is no valid JSON: {}", error.what()));
    }
  }

  static std::optional<std::uint64_t> unsigned_integer(const Json& value) {
    if (value.is_number_unsigned()) {
      return value.get<std::uint64_t>();
    }
    return std::nullopt;
  }

  Entry parse_entry(const std::string& name, const Json& value) const {
    const std::string where = fmt::format("tensor '{}'", name);
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets")) {
      fail(where + " lacks dtype, shape or data_offsets");
    }
    Entry entry;
    entry.name = name;
    const Json& type = value["dtype"];
    const std::optional<DType> dtype =
        type.is_string() ? dtype_of(type.get_ref<const std::string&>()) : std::nullopt;
    if (!dtype) {
      fail(fmt::format("{} has the unknown dtype {}", where,
                       type.dump(-1, ' ', false, Json::error_handler_t::replace)));
    }
    entry.dtype = *dtype;
    parse_shape(where, value["shape"], entry);
    const Json& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !unsigned_integer(offsets[0]) ||
        !unsigned_integer(offsets[1])) {
      fail(where + ": data_offsets are not two positions");
    }
    entry.begin = *unsigned_integer(offsets[0]);
    entry.end = *unsigned_integer(offsets[1]);
    if (entry.begin > entry.end || entry.end > data_size_) {
      fail(fmt::format("{}: data_offsets [{}, {}] lie outside of the {} bytes of data", where,
                       entry.begin, entry.end, data_size_));
    }
    check_byte_count(where, entry);
    return entry;
  }

  void parse_shape(const std::string& where, const Json& shape, Entry& entry) const {
    if (!shape.is_array() || shape.size() > kMaxRank) {
      fail(fmt::format("{}: its shape is no list of at most {} sizes", where, kMaxRank));
    }
    for (const Json& size : shape) {
      const std::optional<std::uint64_t> number = unsigned_integer(size);
      if (!number || *number > static_cast<std::uint64_t>(INT64_MAX)) {
        fail(where + ": its shape holds something that is no size");
      }
      entry.sizes.push_back(static_cast<std::int64_t>(*number));
    }
  }

  void check_byte_count(const std::string& where, const Entry& entry) const {
    std::uint64_t count = item_size(entry.dtype);
    for (const std::int64_t size : entry.sizes) {
      if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(size), &count)) {
        fail(where + ": its shape has more elements than memory can hold");
      }
    }
    if (count != entry.end - entry.begin) {
      fail(fmt::format("{}: its shape needs {} bytes, its data_offsets span {}", where, count,
                       entry.end - entry.begin));
    }
  }

  void check_gapless(const std::vector<Entry>& entries) const {
    std::uint64_t position = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != position) {
        fail(fmt::format(
            "tensor '{}' begins at {}, where {} is expected: data overlaps or has a gap",
            entry.name, entry.begin, position));
      }
      position = entry.end;
    }
    if (position != data_size_) {
      fail(fmt::format("{} bytes of data belong to no tensor", data_size_ - position));
    }
  }

  std::string_view bytes_;
  std::string source_;
  std::uint64_t data_size_ = 0;
};

/// A tensor over the buffer where its alignment allows, else a copy.
Tensor make_tensor(const Entry& entry, char* data, const std::shared_ptr<void>& buffer) {
  const Dims sizes{std::span<const std::int64_t>(entry.sizes)};
  const std::size_t alignment =
      std::min<std::size_t>(item_size(entry.dtype), alignof(std::max_align_t));
  if (reinterpret_cast<std::uintptr_t>(data) % alignment == 0) {
    return {data, entry.dtype, sizes, contiguous_strides(sizes.span()), buffer};
  }
  Tensor copy = Tensor::empty(entry.dtype, sizes);
  if (entry.end > entry.begin) {
    std::memcpy(copy.data(), data, entry.end - entry.begin);
  }
  return copy;
}

NamedTensors tensors_of(std::shared_ptr<char[]> buffer, std::size_t size,
                        const std::string& source) {
  Parser parser(std::string_view(buffer.get(), size), source);
  const std::vector<Entry> entries = parser.parse();
  const std::shared_ptr<void> owner(buffer, buffer.get());
  NamedTensors tensors;
  tensors.reserve(entries.size());
  for (const Entry& entry : entries) {
    tensors.emplace_back(
        entry.name, make_tensor(entry, buffer.get() + parser.data_offset() + entry.begin, owner));
  }
  return tensors;
}

}  // namespace

NamedTensors read_safetensors(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  if (size < 0) {
    throw Error(
        fmt::format("{}: can't be read; check that the file is there and readable", path.string()));
  }
  const std::shared_ptr<char[]> buffer(new char[static_cast<std::size_t>(size)]);
  file.seekg(0);
  if (!file.read(buffer.get(), size)) {
    throw Error(fmt::format("{}: can't be read to its end", path.string()));
  }
  return tensors_of(buffer, static_cast<std::size_t>(size), path.string());
}

NamedTensors parse_safetensors(std::string_view bytes) {
  const std::shared_ptr<char[]> buffer(new char[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), buffer.get());
  return tensors_of(buffer, bytes.size(), "safetensors");
}

void write_safetensors(const std::filesystem::path& path,
                       std::span<const std::pair<std::string, Tensor>> tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Widest elements first: then each tensor is aligned to its element size, as the reference
  // implementation does.
  std::vector<const std::pair<std::string, Tensor>*> order;
  for (const auto& item : tensors) {
    order.push_back(&item);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return item_size(a->second.dtype()) > item_size(b->second.dtype());
  });
  Json header = Json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  std::uint64_t position = 0;
  for (const auto* item : order) {
    const auto& [name, tensor] = *item;
    if (header.contains(name) || name == "__metadata__") {
      throw ValueError(fmt::format("tensor '{}': the name is taken", name));
    }
    const std::uint64_t end = position + tensor.byte_size();
    header[name] = {
        {"dtype", name_of(tensor.dtype(), name)},
        {"shape", std::vector<std::int64_t>(tensor.sizes().begin(), tensor.sizes().end())},
        {"data_offsets", {position, end}}};
    position = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& error) {
    throw ValueError(fmt::format("a tensor's name is no valid UTF-8: {}", error.what()));
  }
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  const std::uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&length), kLengthBytes);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const auto* item : order) {
    const Tensor dense = item->second.contiguous();
    file.write(static_cast<const char*>(dense.data()),
               static_cast<std::streamsize>(dense.byte_size()));
  }
  file.close();
  if (!file) {
    throw Error(fmt::format("{}: can't be written; check the folder and the space on the disk",
                            path.string()));
  }
}

}  // namespace graphtune
