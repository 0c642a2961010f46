#include "graphtune/dtype.h"

#include <array>
#include <string>

#include <fmt/format.h>

#include "graphtune/error.h"

namespace graphtune {
namespace {

template <typename T>
struct Named {
  T value;
  std::string_view name;
};

struct DTypeRow {
  DType value;
  std::string_view name;
  std::uint8_t item_size;
};

// In the order of the numbers, so that a lookup is an index.
constexpr std::array kDTypes = std::to_array<DTypeRow>({
    {DType::UInt8, "uint8", 1},
    {DType::Int8, "int8", 1},
    {DType::Int16, "int16", 2},
    {DType::Int32, "int32", 4},
    {DType::Int64, "int64", 8},
    {DType::Float16, "float16", 2},
    {DType::Float32, "float32", 4},
    {DType::Float64, "float64", 8},
    {DType::Complex32, "complex32", 4},
    {DType::Complex64, "complex64", 8},
    {DType::Complex128, "complex128", 16},
    {DType::Bool, "bool", 1},
    {DType::QInt8, "qint8", 1},
    {DType::QUInt8, "quint8", 1},
    {DType::QInt32, "qint32", 4},
    {DType::BFloat16, "bfloat16", 2},
    {DType::QUInt4x2, "quint4x2", 0},
    {DType::QUInt2x4, "quint2x4", 0},
    {DType::Bits1x8, "bits1x8", 0},
    {DType::Bits2x4, "bits2x4", 0},
    {DType::Bits4x2, "bits4x2", 0},
    {DType::Bits8, "bits8", 1},
    {DType::Bits16, "bits16", 2},
    {DType::Float8E5M2, "float8_e5m2", 1},
    {DType::Float8E4M3FN, "float8_e4m3fn", 1},
    {DType::Float8E5M2FNUZ, "float8_e5m2fnuz", 1},
    {DType::Float8E4M3FNUZ, "float8_e4m3fnuz", 1},
    {DType::UInt16, "uint16", 2},
    {DType::UInt32, "uint32", 4},
    {DType::UInt64, "uint64", 8},
});
// Numbers 30 to 43 are torch's placeholders for integers of less than a byte, of which no tensor
// has values.
constexpr DTypeRow kFloat8E8M0FNU{DType::Float8E8M0FNU, "float8_e8m0fnu", 1};
constexpr DTypeRow kFloat4E2M1FNX2{DType::Float4E2M1FNX2, "float4_e2m1fn_x2", 0};

constexpr bool rows_match_numbers() {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (static_cast<std::size_t>(kDTypes[i].value) != i) {
      return false;
    }
  }
  return true;
}
static_assert(rows_match_numbers());

constexpr std::array kDevices = std::to_array<Named<DeviceType>>({
    {DeviceType::Cpu, "cpu"},
    {DeviceType::Cuda, "cuda"},
    {DeviceType::Hip, "hip"},
    {DeviceType::Xla, "xla"},
    {DeviceType::Xpu, "xpu"},
    {DeviceType::Mps, "mps"},
    {DeviceType::Meta, "meta"},
    {DeviceType::Hpu, "hpu"},
    {DeviceType::Mtia, "mtia"},
    {DeviceType::PrivateUse1, "privateuseone"},
});

constexpr std::array kLayouts = std::to_array<Named<Layout>>({
    {Layout::Strided, "strided"},
    {Layout::Sparse, "sparse_coo"},
    {Layout::SparseCsr, "sparse_csr"},
    {Layout::Mkldnn, "_mkldnn"},
    {Layout::SparseCsc, "sparse_csc"},
    {Layout::SparseBsr, "sparse_bsr"},
    {Layout::SparseBsc, "sparse_bsc"},
    {Layout::Jagged, "jagged"},
});

const DTypeRow* find(DType dtype) noexcept {
  const auto number = static_cast<std::size_t>(static_cast<std::uint8_t>(dtype));
  if (number < kDTypes.size()) {
    return &kDTypes[number];
  }
  if (dtype == DType::Float8E8M0FNU) {
    return &kFloat8E8M0FNU;
  }
  return dtype == DType::Float4E2M1FNX2 ? &kFloat4E2M1FNX2 : nullptr;
}

template <typename T, std::size_t kCount>
std::string_view name_of(const std::array<Named<T>, kCount>& rows, T value) noexcept {
  for (const Named<T>& row : rows) {
    if (row.value == value) {
      return row.name;
    }
  }
  return "unknown";
}

std::string_view without_torch(std::string_view name) noexcept {
  constexpr std::string_view kPrefix = "torch.";
  return name.substr(0, kPrefix.size()) == kPrefix ? name.substr(kPrefix.size()) : name;
}

[[noreturn]] void throw_unknown(std::string_view what, std::string_view name,
                                const std::string& known) {
  throw ValueError(fmt::format("unknown {} '{}': known are {}", what, name.substr(0, 64), known));
}

template <typename Rows>
std::string all_names(const Rows& rows) {
  std::string names;
  for (const auto& row : rows) {
    names += names.empty() ? "" : ", ";
    names += row.name;
  }
  return names;
}

template <typename T, std::size_t kCount>
T value_of(const std::array<Named<T>, kCount>& rows, std::string_view what, std::string_view name) {
  for (const Named<T>& row : rows) {
    if (row.name == without_torch(name)) {
      return row.value;
    }
  }
  throw_unknown(what, name, all_names(rows));
}

}  // namespace

std::string_view to_string(DType dtype) noexcept {
  const DTypeRow* row = find(dtype);
  return row == nullptr ? "unknown" : row->name;
}

std::string_view to_string(DeviceType device) noexcept { return name_of(kDevices, device); }

std::string_view to_string(Layout layout) noexcept { return name_of(kLayouts, layout); }

DType dtype_from_string(std::string_view name) {
  const std::string_view bare = without_torch(name);
  for (const DTypeRow& row : kDTypes) {
    if (row.name == bare) {
      return row.value;
    }
  }
  for (const DTypeRow& row : {kFloat8E8M0FNU, kFloat4E2M1FNX2}) {
    if (row.name == bare) {
      return row.value;
    }
  }
  throw_unknown("dtype", name, all_names(kDTypes));
}

DeviceType device_type_from_string(std::string_view name) {
  return value_of(kDevices, "device type", name);
}

Layout layout_from_string(std::string_view name) { return value_of(kLayouts, "layout", name); }

std::size_t item_size(DType dtype) noexcept {
  const DTypeRow* row = find(dtype);
  return row == nullptr ? 0 : row->item_size;
}

}  // namespace graphtune
