#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "graphtune/export.h"

namespace graphtune {

/// Element type of a tensor. The numbers are those of c10::ScalarType, so that a torch tensor's
/// type converts with a cast (the bindings assert it).
enum class DType : std::int8_t {
  UInt8 = 0,
  Int8 = 1,
  Int16 = 2,
  Int32 = 3,
  Int64 = 4,
  Float16 = 5,
  Float32 = 6,
  Float64 = 7,
  Complex32 = 8,
  Complex64 = 9,
  Complex128 = 10,
  Bool = 11,
  QInt8 = 12,
  QUInt8 = 13,
  QInt32 = 14,
  BFloat16 = 15,
  QUInt4x2 = 16,
  QUInt2x4 = 17,
  Bits1x8 = 18,
  Bits2x4 = 19,
  Bits4x2 = 20,
  Bits8 = 21,
  Bits16 = 22,
  Float8E5M2 = 23,
  Float8E4M3FN = 24,
  Float8E5M2FNUZ = 25,
  Float8E4M3FNUZ = 26,
  UInt16 = 27,
  UInt32 = 28,
  UInt64 = 29,
  Float8E8M0FNU = 44,
  Float4E2M1FNX2 = 45,
};

/// Device kind; numbers as c10::DeviceType.
enum class DeviceType : std::int8_t {
  Cpu = 0,
  Cuda = 1,
  Hip = 6,
  Xla = 9,
  Xpu = 12,
  Mps = 13,
  Meta = 14,
  Hpu = 15,
  Mtia = 19,
  PrivateUse1 = 20,
};

/// Memory layout; numbers as c10::Layout.
enum class Layout : std::int8_t {
  Strided = 0,
  Sparse = 1,
  SparseCsr = 2,
  Mkldnn = 3,
  SparseCsc = 4,
  SparseBsr = 5,
  SparseBsc = 6,
  Jagged = 7,
};

/// "float32", "int64", …; "unknown" for a number that is not listed above (a newer torch's type).
[[nodiscard]] GRAPHTUNE_API std::string_view to_string(DType dtype) noexcept;
/// "cpu", "cuda", …
[[nodiscard]] GRAPHTUNE_API std::string_view to_string(DeviceType device) noexcept;
/// "strided", "sparse_coo", … (torch's spelling)
[[nodiscard]] GRAPHTUNE_API std::string_view to_string(Layout layout) noexcept;

/// Inverse of to_string; also accepts the "torch." prefix. Throws ValueError for an unknown name.
[[nodiscard]] GRAPHTUNE_API DType dtype_from_string(std::string_view name);
[[nodiscard]] GRAPHTUNE_API DeviceType device_type_from_string(std::string_view name);
[[nodiscard]] GRAPHTUNE_API Layout layout_from_string(std::string_view name);

/// Bytes of one element; 0 for types without a whole number of bytes.
[[nodiscard]] GRAPHTUNE_API std::size_t item_size(DType dtype) noexcept;

}  // namespace graphtune
